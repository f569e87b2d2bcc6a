// The text form of a Job (*.zprog): for people to read, tests to write, and the fingerprint to
// hash. to_text is canonical: parse_zprog reads it back and to_text of the result is the same
// bytes. One line per buffer and node; words are those of names.h; sizes and offsets are bytes.
//
//   zprog 1
//   # model gpt2-tiny                                    (name only, not part of the fingerprint)
//   job cpu.f32 placed                                   (or unplaced)
//   mesh tp 1 every 1 dp 2 every 1 pp 1 every 2          (axis, places, ranks between neighbours)
//   batch global 8 micro 2 micro_steps 2 sequence 16
//   unit layer per_layer tiles 2 elements 80 decay 64 shared 8 from 72 shard 128 over dp flat 256
//     tensor h.{}.c_fc.weight [8,8] normal 0.02 decay offset 0 columns [8]
//     tensor wte.weight [50,8] normal 0.02 decay offset 0 rows padded 32       (rows of a piece)
//   class stage 0 first_layer 0 layers 2                 (both again for each further chunk)
//     slab gpu 4096 live_peak 3840                       (one per tier, when placed)
//     buffer @0 param gpu parameters f32 slot 512 slots 2 persistent unpadded 640 shards 2 at 0
//     home layer@0 param param@0 over dp master param@0 over dp moment1 m@1 .. moment2 v@2 ..
//       (of a home in two buffers: moment1 m@1 then far.m@3 over dp)
//     step {
//       repeat 2 micro from 0 step 1 {    (or layer, tile; micro relative from ..; no variable)
//         %0 forward.layer.gather comm_gather all_gather dp r param@0[l]:f32[128], ..
//         %1 forward.fc1.compute compute linear_forward r x@4[2m-l+t+1]+512+dp*256:f32[4,8], ..
//         %2 forward.boundary.send send_forward_up send to pp +1 r x@4:f32[4,8] after ..
//         %3 forward.batch.compute input load_batch w t@5:i32[2,17] attr 2 8 0+dp*2 0
//       }
//     }
//
// A view is ACCESS BUFFER@ID [SLOT] +OFFSET +AXIS*STRIDE .. : DTYPE[SHAPE]; slot, offset and
// strides are left out when zero; m, l and t in a slot are the micro-batch, layer and tile of the
// instance. An attribute is a number and its growth along axes. A group is its axes, "dp.0+dp.1",
// or of them the first and last places, "ends(pp)"; a peer an axis and a step, "pp -1 wraps". An
// edge is %NODE:LEVEL -DELTA :MATCH@DEPTH :reuse; delta 0 and match last are left out. So are tiles
// 1 and shared 0 of a unit and an uncut tensor's split. Where a layer loop goes through several
// layers at a time, the class ends in "unit_layers 2", and "member 1" after the role of a node or
// the offset of a tensor says which of them it is of; of a node outside such loops, which layer.
// "owned dp" before the lane of a node: only that member of the group does it. Text that starts
// with # runs to the end of its line and says nothing; nor do blank lines and indentation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "planner/program/job/job.h"
#include "planner/program/job/limits.h"

namespace zplan {

// Bounds that parse_zprog keeps beside those of limits.h, so that no arithmetic of a reader of the
// Job overflows 64 bits.
inline constexpr std::int64_t kMaxBufferBytes = std::int64_t{1} << 56;
inline constexpr std::int64_t kMaxClassBytes = std::int64_t{1} << 60;  // all buffers of a class
inline constexpr std::int64_t kMaxViewElements = std::int64_t{1} << 40;
inline constexpr std::int64_t kMaxInnerDim = std::int64_t{1} << 21;   // of views of rank 3 and more
inline constexpr std::int64_t kMaxInstances = std::int64_t{1} << 40;  // nodes issued per step
inline constexpr std::int64_t kMaxLoopValue = std::int64_t{1} << 30;
inline constexpr std::int64_t kMaxUnitElements = std::int64_t{1} << 50;

std::string to_text(const Job& job);

// Throws Error(kBadInput), one line "file_name:line: expected ..., got ...".
Job parse_zprog(std::string_view text, const std::string& file_name);

}  // namespace zplan
