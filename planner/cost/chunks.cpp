#include "planner/cost/chunks.h"

#include <algorithm>
#include <cmath>

namespace zplan {
namespace {

constexpr double kKib = 1024;
constexpr double kLowChunk = 32 * kKib, kSimpleChunk = 512 * kKib;
constexpr double kLineChunk = 562.5 * kKib;  // 600 KiB of lines, 15/16 of them data
constexpr int kMostHeads = 32;               // GPUs of a node that add up in switches

// Halves a chunk above `least` until the buffer has so many in each channel.
double halved(double chunk, double least, double of_channel, double wanted) {
  while (chunk > least && std::floor(of_channel / chunk) < wanted) chunk /= 2;
  return chunk;
}

double line_chunk(double of_channel, int nodes, int in_node) {
  constexpr double kLarge = 128 * kKib, kSmall = 32 * kKib;
  const double stages = 1 + std::floor(std::log2(nodes)) + 0.1 * in_node;
  const double chunk = halved(kLineChunk, kLarge, of_channel, stages * 64 / in_node);
  return halved(chunk, kSmall, of_channel, stages * 16 / in_node);
}

}  // namespace

double tree_chunks(Protocol protocol, double bytes, int nodes, int in_node, int channels) {
  const double of_channel = bytes / channels;
  double chunk = kSimpleChunk;
  if (protocol == Protocol::kLow) chunk = kLowChunk;
  if (protocol == Protocol::kLine) chunk = line_chunk(of_channel, nodes, in_node);
  return std::min(bytes, chunk * channels);
}

double nvls_chunks(double bytes, int nodes, int in_node, int channels) {
  constexpr double kLarge = 128 * kKib, kMiddle = 64 * kKib, kSmall = 32 * kKib;
  constexpr int kManyNodes = 4, kManyInNode = 16, kEnough = 4;
  const double at_once = static_cast<double>(channels) * std::min(in_node, kMostHeads);
  double chunk = nodes < kManyNodes && in_node < kManyInNode ? kLarge : kMiddle;
  if (bytes < kEnough * at_once * chunk) chunk = kMiddle;
  if (bytes < at_once * chunk) chunk = kSmall;
  return std::min(bytes, chunk * at_once);
}

}  // namespace zplan
