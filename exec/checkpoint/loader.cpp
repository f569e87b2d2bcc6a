#include "exec/checkpoint/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/saved_states.h"
#include "exec/checkpoint/state_filler.h"
#include "exec/comm/rendezvous.h"
#include "exec/memory/initial_state.h"
#include "exec/memory/state_access.h"
#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/program/instances/carried.h"
#include "planner/program/text/fingerprint.h"

namespace zplan::exec {
namespace {

// Same tensors at the same places.
bool has_same_tensors(const SavedPiece& a, const SavedPiece& b) {
  return std::equal(
      a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
      [](const Tensor& x, const Tensor& y) { return x.name == y.name && x.offset == y.offset; });
}

// Of a buffer that a step takes over: whether another plan has it, as of the loss scale.
bool is_kept(const std::string& buffer) {
  constexpr std::string_view kKept[] = {"clip", "clip.host", "loss_scale"};
  return std::find(std::begin(kKept), std::end(kKept), buffer) != std::end(kKept);
}

bool carries_more(const Job& job) {
  for (const RankClass& c : job.classes)
    for (const BufferId id : carried_buffers(c))
      if (!is_kept(c.program.buffers[id].name)) return true;
  return false;
}

bool carries_more(const SavedFile& file) {
  const std::vector<SavedCarried>& all = file.index().carried;
  return std::any_of(all.begin(), all.end(), [](auto& each) { return !is_kept(each.buffer); });
}

// Newest first. Of processes all take the list of rank 0.
std::vector<std::string> candidates(const ResumeOptions& options, Rendezvous* rendezvous) {
  std::string name = std::filesystem::path(options.path).filename().string();
  if (name.empty()) name = std::filesystem::path(options.path).parent_path().filename().string();
  if (checkpoint_step(name)) return {options.path};
  std::vector<std::string> names;
  std::error_code error;  // what cannot be looked at holds no checkpoint
  if (std::filesystem::exists(options.path, error))
    for (const std::int64_t step : checkpoint_steps(options.path))
      names.insert(names.begin(), checkpoint_name(step));
  if (rendezvous != nullptr) {
    const std::string all = rendezvous->exchange(joined(names, "\n")).front();
    names.clear();
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t end = std::min(all.find('\n', at), all.size());
      names.push_back(all.substr(at, end - at));
      at = end + 1;
    }
  }
  for (std::string& each : names) each = path_in(options.path, each);
  return names;
}

// What is wrong with the checkpoint for one of the processes; empty: nothing.
std::string agreed(const std::string& wrong, Rendezvous* rendezvous) {
  if (rendezvous == nullptr) return wrong;
  for (const std::string& each : rendezvous->exchange(wrong))
    if (!each.empty()) return each;
  return "";
}

}  // namespace

Checkpoint::Checkpoint(std::string path) : path_(std::move(path)) {
  const std::string name = path_in(path_, kHeaderName);
  header_ = header_from_text(read_saved_text(name), name);
  for (std::int32_t rank = 0; rank < header_.world; ++rank) {
    const SavedFile& file = files_.emplace_back(path_, rank, header_.step);
    const std::vector<SavedPiece>& pieces = file.index().pieces;
    for (std::size_t p = 0; p < pieces.size(); ++p)
      for (std::size_t t = 0; t < pieces[p].tensors.size(); ++t)
        sources_[{pieces[p].tensors[t].name, pieces[p].state}].push_back(
            {static_cast<std::size_t>(rank), p, t});
  }
}

bool Checkpoint::is_of(const Job& job) const {
  return header_.world == job.world() && header_.fingerprint == fingerprint(job);
}

const std::vector<StateSource::Source>& Checkpoint::sources(const std::string& tensor,
                                                            State state) const {
  static const std::vector<Source> kNone;
  const auto found = sources_.find({tensor, state});
  return found == sources_.end() ? kNone : found->second;
}

const SavedPiece& Checkpoint::piece(const Source& at) const {
  return files_[at.file].index().pieces[at.piece];
}

const std::byte* Checkpoint::bytes(const Source& at) { return files_[at.file].piece(at.piece); }

StateSource::Source Checkpoint::scales_of(const Source& codes) const {
  const SavedPiece& own = piece(codes);
  const auto state = static_cast<State>(static_cast<int>(own.state) + kScalesAfterCodes);
  for (const Source& at : sources(own.tensors[codes.tensor].name, state)) {
    const SavedPiece& other = piece(at);
    if (at.file == codes.file && other.piece == own.piece && other.first == own.first &&
        other.elements == own.elements && has_same_tensors(own, other))
      return at;
  }
  throw_bad_input(fmt::format("{}: has no scales of the 8-bit moments of {}", path_,
                              own.tensors[codes.tensor].name));
}

void Checkpoint::check_model(const Job& job) const {
  std::set<std::string> names;
  for (const TensorRef& ref : all_tensors(job)) names.insert(tensor_name(job, ref));
  for (const auto& [saved, sources] : sources_) {
    if (names.contains(saved.first)) continue;
    throw_bad_input(fmt::format("{}: holds {}, which this model does not have: it is of another",
                                path_, saved.first));
  }
}

std::vector<std::string> Checkpoint::load(const Job& job, std::vector<RankMemory>& memory) {
  check_model(job);
  StateFiller filler(*this, job);
  for (RankMemory& m : memory) filler.fill(m);
  load_carried(job, memory);
  std::vector<std::string> lost;
  if (filler.without_moments() > 0)
    lost.push_back(
        fmt::format("the moments of {} tensors begin at zero: the optimizer is another "
                    "one",
                    filler.without_moments()));
  const bool had_more =
      std::any_of(files_.begin(), files_.end(), [](auto& file) { return carries_more(file); });
  if (!is_of(job) && (had_more || carries_more(job)))
    lost.emplace_back(
        "what a step hands to the next one, such as gradients of a delayed update or moments of "
        "Adafactor, is of one plan alone: it begins at zero");
  return lost;
}

void Checkpoint::load_carried(const Job& job, std::vector<RankMemory>& memory) {
  const bool is_same = is_of(job);
  for (RankMemory& m : memory) {
    clear_carried(m);
    if (!is_same) {
      if (header_.loss_scale) write_loss_scale(m, *header_.loss_scale);
      continue;
    }
    SavedFile& file = files_[static_cast<std::size_t>(m.rank())];
    const std::vector<BufferId> buffers = carried_buffers(m.rank_class());
    if (file.index().carried.size() != buffers.size())
      throw_bad_input(
          fmt::format("{}: rank {} does not have what a step carries over", path_, m.rank()));
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& buffer = m.rank_class().program.buffers[buffers[i]];
      const SavedCarried& saved = file.index().carried[i];
      if (saved.buffer != buffer.name || saved.at.bytes != buffer.size().value)
        throw_bad_input(fmt::format("{}: rank {} does not have {}", path_, m.rank(), buffer.name));
      store_bytes(m, buffers[i], 0, buffer.size(), [&](std::byte* data) {
        std::memcpy(data, file.carried(i), static_cast<std::size_t>(saved.at.bytes));
      });
    }
  }
}

KnownChoices saved_choices(const ResumeOptions& options, const std::vector<std::int32_t>& ranks) {
  KnownChoices choices;
  if (options.path.empty()) return choices;
  const std::vector<std::string> paths = candidates(options, nullptr);
  if (paths.empty()) return choices;
  for (const std::int32_t rank : ranks) {
    const std::string name = path_in(paths.front(), index_name(rank));
    try {
      choices.merge(index_from_text(read_saved_text(name), name).choices);
    } catch (const Error&) {  // resume_states says what is wrong with it
    }
  }
  return choices;
}

ResumePoint resume_states(const Job& job, const ResumeOptions& options,
                          std::vector<RankMemory>& memory, Rendezvous* rendezvous,
                          const std::function<void(const std::string&)>& say) {
  if (options.path.empty()) return {};
  const std::vector<std::string> paths = candidates(options, rendezvous);
  std::string wrong;
  for (const std::string& path : paths) {
    ResumePoint point;
    std::vector<std::string> lost;
    try {
      Checkpoint checkpoint(path);
      lost = checkpoint.load(job, memory);
      const Header& header = checkpoint.header();
      point = {.path = path,
               .step = header.step,
               .samples = header.samples,
               .seed = header.seed,
               .same_job = checkpoint.is_of(job),
               .plan = header.plan,
               .validated = header.validated};
      wrong.clear();
    } catch (const Error& error) {
      wrong = error.what();
    }
    wrong = agreed(wrong, rendezvous);
    if (wrong.empty()) {
      for (const std::string& line : lost) say(line);
      return point;
    }
    if (paths.size() > 1) say(fmt::format("{}; the checkpoint before it is tried", wrong));
  }
  if (paths.empty() && options.expected)
    throw_bad_input(fmt::format("{}: holds no checkpoint", options.path));
  if (paths.empty()) return {};
  throw_bad_input(paths.size() == 1 ? wrong
                                    : fmt::format("{}: none of its {} checkpoints is good",
                                                  options.path, paths.size()));
}

}  // namespace zplan::exec
