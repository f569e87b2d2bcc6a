// How large a Job may be: what legality of plans and the reader of its text form both keep to. The
// counts are those an operation id (job.h) and a node (program.h) have room for, or far beyond any
// published training run.
#pragma once

#include <cstdint>

namespace zplan {

inline constexpr std::int64_t kMaxDp = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxTp = 1024;
inline constexpr std::int64_t kMaxRanks = std::int64_t{1} << 30;  // dp x tp x pp [derived]
inline constexpr std::int64_t kMaxDevices = 1024;                 // of a node
inline constexpr std::int64_t kMaxTiles = 16;       // an operation id has 8 bits for the tile
inline constexpr std::int64_t kMaxRing = 256;       // whose steps are counted as tiles
inline constexpr std::int64_t kMaxHeadChunks = 16;  // counted as tiles
inline constexpr std::int64_t kMaxPeerStep = 127;   // Peer::step is one byte
inline constexpr std::int64_t kMaxStages = 255;     // [assumed] beyond any published run
inline constexpr std::int64_t kMaxMicroSteps = std::int64_t{1} << 16;
inline constexpr std::int64_t kMaxLayers = 65535;  // an operation id has 16 bits for the layer
inline constexpr std::int64_t kMaxPrefetch = 64;
inline constexpr std::int64_t kMaxUnitLayers = 16;

}  // namespace zplan
