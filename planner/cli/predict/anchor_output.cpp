#include "planner/cli/predict/anchor_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// What moved by a percent at least, most first.
std::vector<MovedRate> greatest(std::vector<MovedRate> moved) {
  constexpr double kWorthTelling = 0.01;
  const auto by = [](const MovedRate& rate) {
    return std::abs(std::log(rate.after / rate.before));
  };
  std::erase_if(moved, [&](const MovedRate& rate) { return by(rate) < kWorthTelling; });
  std::ranges::stable_sort(moved, [&](const auto& a, const auto& b) { return by(a) > by(b); });
  return moved;
}

}  // namespace

std::string anchors_text(const std::vector<Anchor>& anchors) {
  std::string out;
  for (const Anchor& anchor : anchors) {
    std::string moved;
    for (const MovedRate& rate : greatest(anchor.moved))
      moved += fmt::format("; {} {:+.0f} %", rate.name, 100 * (rate.after / rate.before - 1));
    out += wrap(fmt::format("anchor {}: measured {}, predicted {} before and {} after{}",
                            visible(anchor.run), format_seconds(anchor.measured),
                            format_seconds(anchor.before), format_seconds(anchor.after),
                            moved.empty() ? "; no rate moved by 1 %" : moved),
                kScreenWidth, 2, 0) +
           "\n";
  }
  return out.empty() ? out : out + "\n";
}

std::string anchors_json(const std::vector<Anchor>& anchors) {
  using Json = nlohmann::ordered_json;
  Json out = Json::array();
  for (const Anchor& anchor : anchors) {
    Json moved = Json::array();
    for (const MovedRate& rate : anchor.moved)
      moved.push_back({{"rate", rate.name}, {"before", rate.before}, {"after", rate.after}});
    out.push_back({{"run", anchor.run},
                   {"measured_s", anchor.measured.value},
                   {"before_s", anchor.before.value},
                   {"after_s", anchor.after.value},
                   {"moved", std::move(moved)}});
  }
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace zplan
