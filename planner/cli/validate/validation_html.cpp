// The page of `zplan validate --html`: self-contained, a scatter plot as SVG and tables; opens
// without a network.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "planner/cli/validate/validation.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// Twelve hues far apart; groups beyond them repeat.
constexpr std::array<std::string_view, 12> kColours = {"#4477aa", "#ee6677", "#228833", "#ccbb44",
                                                       "#66ccee", "#aa3377", "#bb5500", "#000000",
                                                       "#009988", "#994455", "#6699cc", "#997700"};

constexpr std::string_view kStyle =
    "body{font:14px sans-serif;margin:2em;max-width:1100px}"
    "table{border-collapse:collapse;margin:1em 0}"
    "td,th{padding:2px 10px;border-bottom:1px solid #ddd;text-align:right}"
    "td:first-child,th:first-child,td.text{text-align:left}"
    "svg{border:1px solid #ccc}";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string_view colour_of(const Validation& validation, const std::string& group) {
  const auto& groups = validation.statistics.groups;
  const auto place = std::distance(groups.begin(), groups.find(group));
  return kColours[static_cast<std::size_t>(place) % kColours.size()];
}

// Decades of seconds that hold all points, both ways.
struct Scale {
  double low = 0, high = 1;  // log10
  static constexpr double kSize = 640, kMargin = 50;
  double at(double seconds) const {
    return (std::log10(seconds) - low) / (high - low) * (kSize - 2 * kMargin) + kMargin;
  }
  double x(double seconds) const { return at(seconds); }
  double y(double seconds) const { return kSize - at(seconds); }
};

Scale scale_of(const std::vector<RunResult>& runs) {
  Scale scale{.low = 100, .high = -100};
  for (const RunResult& run : runs) {
    if (!run.has_time()) continue;
    for (const double seconds : {*run.predicted_s, *run.measured_s}) {
      scale.low = std::min(scale.low, std::floor(std::log10(seconds)));
      scale.high = std::max(scale.high, std::ceil(std::log10(seconds)));
    }
  }
  if (scale.low >= scale.high) scale.high = scale.low + 1;
  return scale;
}

std::string axes(const Scale& scale) {
  std::string out;
  const double first = std::pow(10, scale.low), last = std::pow(10, scale.high);
  for (double decade = scale.low; decade <= scale.high; decade += 1) {
    const double seconds = std::pow(10, decade);
    out += fmt::format(
        "<line x1='{0:.1f}' x2='{0:.1f}' y1='{1:.1f}' y2='{2:.1f}' stroke='#eee'/>"
        "<line x1='{3:.1f}' x2='{4:.1f}' y1='{5:.1f}' y2='{5:.1f}' stroke='#eee'/>"
        "<text x='{0:.1f}' y='{6:.1f}' font-size='11' text-anchor='middle'>{7:g} s</text>"
        "<text x='{8:.1f}' y='{5:.1f}' font-size='11' text-anchor='end'>{7:g} s</text>\n",
        scale.x(seconds), scale.y(first), scale.y(last), scale.x(first), scale.x(last),
        scale.y(seconds), scale.y(first) + 16, seconds, scale.x(first) - 4);
  }
  for (const double factor : {0.8, 1.0, 1.25}) {
    out += fmt::format("<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' stroke='#888'{}/>\n",
                       scale.x(first), scale.y(first * factor), scale.x(last),
                       scale.y(last * factor), factor == 1.0 ? "" : " stroke-dasharray='4 4'");
  }
  return out;
}

std::string plot(const Validation& validation) {
  if (validation.statistics.all.time.n == 0) return "";
  const Scale scale = scale_of(validation.runs);
  std::string out =
      fmt::format("<svg viewBox='0 0 {0:g} {0:g}' width='{0:g}' height='{0:g}'>\n", Scale::kSize);
  out += axes(scale);
  for (const RunResult& run : validation.runs) {
    if (!run.has_time()) continue;
    out += fmt::format(
        "<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='{}' fill-opacity='0.6'><title>{}: {:.4g} s "
        "predicted, {:.4g} s measured, {:+.1f} %</title></circle>\n",
        scale.x(*run.measured_s), scale.y(*run.predicted_s), colour_of(validation, run.group),
        escaped(run.id), *run.predicted_s, *run.measured_s, run.time_error_pct());
  }
  return out +
         "</svg>\n<p>Step time: measured to the right, predicted upwards; dashed: a quarter "
         "off.</p>\n";
}

std::string group_table(const Validation& validation) {
  std::string out =
      "<table><tr><th>group</th><th>runs</th><th>mean %</th><th>median %</th><th>p90 %</th>"
      "<th>bias %</th><th>pairs</th><th>right %</th></tr>\n";
  const auto row = [&](std::string_view colour, const std::string& name, const TimeStatistics& t) {
    out += fmt::format(
        "<tr><td><span style='color:{}'>&#9679;</span> {}</td><td>{}</td><td>{:.1f}</td>"
        "<td>{:.1f}</td><td>{:.1f}</td><td>{:+.1f}</td><td>{}</td><td>{:.1f}</td></tr>\n",
        colour, escaped(name), t.n, t.mape_pct, t.median_ape_pct, t.p90_ape_pct, t.bias_pct,
        t.pairs, t.pairs_right_pct);
  };
  for (const auto& [group, of] : validation.statistics.groups)
    if (of.time.n > 0) row(colour_of(validation, group), group, of.time);
  row("#fff", "all runs", validation.statistics.all.time);
  return out + "</table>\n";
}

std::string run_table(const Validation& validation) {
  std::string out =
      "<table><tr><th>run</th><th>stack</th><th>predicted s</th><th>measured s</th><th>error %</th>"
      "<th>predicted GiB</th><th>measured GiB</th><th>remarks</th></tr>\n";
  const auto cell = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.4g}", *value) : std::string();
  };
  for (const RunResult& run : validation.runs) {
    std::string remarks = joined(run.flags, "; ");
    if (!run.unsupported.empty()) remarks = "not supported: " + run.unsupported;
    if (run.fits == false) remarks = "does not fit; " + remarks;
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td class='text'>{}</td></tr>\n",
        escaped(run.id), escaped(run.stack), cell(run.predicted_s), cell(run.measured_s),
        run.has_time() ? fmt::format("{:+.1f}", run.time_error_pct()) : "", cell(run.predicted_gib),
        cell(run.measured_gib), escaped(remarks));
  }
  return out + "</table>\n";
}

}  // namespace

std::string validation_html(const Validation& validation) {
  return fmt::format(
             "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
             "<title>zplan validate {0}</title><style>{1}</style></head><body>\n"
             "<h1>Predictions beside published runs</h1>\n<p>{2} runs of {0}; mean over groups "
             "{3:.1f} %.</p>\n",
             escaped(validation.file), kStyle, validation.runs.size(),
             validation.statistics.mean_group_mape_pct) +
         plot(validation) + group_table(validation) + run_table(validation) + "</body></html>\n";
}

}  // namespace zplan
