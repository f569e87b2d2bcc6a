// The text files of a checkpoint, which is a folder step-000020 of
//
//   checkpoint.json   Header: how far training was, and with what. Schema "zplan.checkpoint/1"
//   rank-00003.json   RankIndex: what the file beside it holds. Schema "zplan.checkpoint_rank/1"
//   rank-00003.bin    the bytes, each piece at a multiple of kIoAlignment
//
// A piece is a run of elements of a flat unit as one rank held it, and says of which global tensors
// it is a part: their names, whole shapes and how they are cut (exec/memory/tensor_part.h), so that
// any other cut can be read from it. Each element of each tensor and state is in exactly one piece.
// Both files end with the checksum of all that is before it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/kernel_choice.h"
#include "exec/memory/state_access.h"
#include "planner/core/units.h"
#include "planner/program/job/job.h"

namespace zplan::exec {

inline constexpr const char* kHeaderName = "checkpoint.json";
std::string index_name(std::int32_t rank);  // "rank-00003.json"
std::string bytes_name(std::int32_t rank);  // "rank-00003.bin"

struct SavedLossScale {
  double scale = 0, good_steps = 0, skipped_steps = 0;
  bool overflowed = false;  // the gradients of the last step
};

struct Header {
  std::int64_t step = 0;     // steps that are done
  std::int64_t samples = 0;  // of the data that are used
  std::uint64_t seed = 0;    // of initial values, data order and every other draw
  std::int32_t world = 1;    // ranks, and so files
  std::string fingerprint;   // of the Job
  std::optional<SavedLossScale> loss_scale;
  bool validated = false;  // whether a validation that is due after this step is known to be done
  std::string plan;        // its file's text, for whoever reads the checkpoint; may be empty
};

struct SavedBytes {
  std::int64_t offset = 0;  // in the rank's file
  std::int64_t bytes = 0;
  std::uint64_t sum = 0;
};

// StatePiece of a rank, and the tensors it has a part of. Offsets of tensors are those in the flat
// unit, as in job.h; names have the layer in them.
struct SavedPiece {
  SavedBytes at;
  State state = State::kParam;
  DType dtype = DType::kF32;
  std::int64_t piece = 0, pieces = 1, first = 0, elements = 0;
  std::int32_t every = 1;
  std::vector<Tensor> tensors;
};

// What a step takes over from the step before it other than states (carried.h): of the same Job
// only.
struct SavedCarried {
  SavedBytes at;
  std::string buffer;
};

struct RankIndex {
  std::int64_t step = 0;
  std::int32_t rank = 0;
  Bytes bytes{0};  // of the rank's file
  std::vector<SavedPiece> pieces;
  std::vector<SavedCarried> carried;
  KnownChoices choices{};  // of the process that held the rank
};

// Ends an object that lacks its closing brace with the checksum of its text.
std::string sealed(std::string text);
std::string to_text(const Header& header);
std::string to_text(const RankIndex& index);
// Throw Error(kBadInput), one line naming `name`: damaged, or not what it should be.
Header header_from_text(const std::string& text, const std::string& name);
RankIndex index_from_text(const std::string& text, const std::string& name);

}  // namespace zplan::exec
