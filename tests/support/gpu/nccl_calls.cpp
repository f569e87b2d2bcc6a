// NCCL of the stand-in GPU: the functions that queue operations, and what they compute.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <fmt/format.h>

#include <cstring>

#include "tests/support/gpu/nccl.h"

namespace zplan::stand_in {
namespace {

// Transfers between ncclGroupStart and ncclGroupEnd.
struct OpenGroup {
  int depth = 0;
  ncclComm* comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<PartPtr> parts;
};
thread_local OpenGroup open_group;

template <typename T>
T add(T x, T y) {
  if constexpr (std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>) {
    return T(static_cast<float>(x) + static_cast<float>(y));
  } else {
    return static_cast<T>(x + y);
  }
}

// Elements [begin, begin + count) of all inputs.
template <typename T>
std::vector<T> sums(const std::map<int, Collective>& calls, std::size_t begin, std::size_t count) {
  std::vector<T> all;
  for (const auto& [rank, call] : calls) {
    const T* input = static_cast<const T*>(call.input) + begin;
    if (all.empty()) {
      all.assign(input, input + count);
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) all[i] = add(all[i], input[i]);
  }
  return all;
}

template <typename T>
void reduce(const std::map<int, Collective>& calls) {
  const Collective& first = calls.begin()->second;
  const std::size_t n = first.count;
  const bool scatters = first.kind == Kind::kReduceScatter;
  const std::vector<T> all = sums<T>(calls, 0, scatters ? n * calls.size() : n);
  for (const auto& [rank, call] : calls) {
    if (first.kind == Kind::kReduce && rank != first.root) continue;
    const T* own = all.data() + (scatters ? n * static_cast<std::size_t>(rank) : 0);
    std::memcpy(call.output, own, n * sizeof(T));
  }
}

void gather(const std::map<int, Collective>& calls) {
  const std::size_t bytes = calls.begin()->second.count * size_of_type(calls.begin()->second.type);
  for (const auto& [to, reader] : calls)
    for (const auto& [from, writer] : calls)
      std::memmove(static_cast<std::byte*>(reader.output) + bytes * static_cast<std::size_t>(from),
                   writer.input, bytes);
}

void broadcast(const std::map<int, Collective>& calls) {
  const Collective& root = calls.at(calls.begin()->second.root);
  for (const auto& [rank, call] : calls)
    std::memmove(call.output, root.input, root.count * size_of_type(root.type));
}

}  // namespace

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"ncclAllGather", "ncclReduceScatter", "ncclAllReduce",
                                    "ncclBroadcast", "ncclReduce"};
  return kNames[static_cast<int>(kind)];
}

std::size_t size_of_type(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
      return 8;
    case ncclFloat32:
    case ncclInt32:
      return 4;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

void compute(const std::map<int, Collective>& calls) {
  const Collective& first = calls.begin()->second;
  if (first.kind == Kind::kAllGather) return gather(calls);
  if (first.kind == Kind::kBroadcast) return broadcast(calls);
  switch (first.type) {
    case ncclFloat64:
      return reduce<double>(calls);
    case ncclFloat32:
      return reduce<float>(calls);
    case ncclFloat16:
      return reduce<__half>(calls);
    case ncclBfloat16:
      return reduce<__nv_bfloat16>(calls);
    case ncclInt32:
      return reduce<std::int32_t>(calls);
    default:
      return reduce<std::uint8_t>(calls);
  }
}

namespace {

ncclResult_t queue_part(ncclComm* comm, cudaStream_t stream, Part part) {
  const PartPtr made = std::make_shared<Part>(std::move(part));
  if (open_group.depth == 0) return queue_transfers(comm, {made}, stream);
  if (!open_group.parts.empty() && (open_group.comm != comm || open_group.stream != stream))
    return nccl_call("ncclGroupStart", [](Machine& m, Lock&, Nccl&) {
      m.find("ncclGroupStart: a group over several communicators or streams");
      return ncclInvalidUsage;
    });
  open_group.comm = comm;
  open_group.stream = stream;
  open_group.parts.push_back(made);
  return ncclSuccess;
}

ncclResult_t queue_alone(ncclComm* comm, const Collective& call, ncclRedOp_t sum,
                         cudaStream_t stream) {
  if (open_group.depth == 0 && sum == ncclSum) return queue_collective(comm, call, stream);
  return nccl_call(name_of(call.kind), [&](Machine& m, Lock&, Nccl&) {
    m.find(fmt::format("{}: within a group, or no sum", name_of(call.kind)));
    return ncclInvalidUsage;
  });
}

}  // namespace
}  // namespace zplan::stand_in

using namespace zplan::stand_in;

ncclResult_t ncclGroupStart() {
  ++open_group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (open_group.depth == 0)
    return nccl_call("ncclGroupEnd", [](Machine& m, Lock&, Nccl&) {
      m.find("ncclGroupEnd: no group has begun");
      return ncclInvalidUsage;
    });
  if (--open_group.depth > 0 || open_group.parts.empty()) return ncclSuccess;
  const std::vector<PartPtr> parts = std::exchange(open_group.parts, {});
  return queue_transfers(open_group.comm, parts, open_group.stream);
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return queue_part(comm, stream, {true, peer, const_cast<void*>(data), count, type});
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return queue_part(comm, stream, {false, peer, data, count, type});
}
ncclResult_t ncclAllGather(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return queue_alone(comm, {Kind::kAllGather, count, type, 0, input, output}, ncclSum, stream);
}
ncclResult_t ncclReduceScatter(const void* input, void* output, std::size_t count,
                               ncclDataType_t type, ncclRedOp_t sum, ncclComm_t comm,
                               cudaStream_t stream) {
  return queue_alone(comm, {Kind::kReduceScatter, count, type, 0, input, output}, sum, stream);
}
ncclResult_t ncclAllReduce(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t sum, ncclComm_t comm, cudaStream_t stream) {
  return queue_alone(comm, {Kind::kAllReduce, count, type, 0, input, output}, sum, stream);
}
ncclResult_t ncclBroadcast(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return queue_alone(comm, {Kind::kBroadcast, count, type, root, input, output}, ncclSum, stream);
}
ncclResult_t ncclReduce(const void* input, void* output, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t sum, int root, ncclComm_t comm, cudaStream_t stream) {
  return queue_alone(comm, {Kind::kReduce, count, type, root, input, output}, sum, stream);
}
