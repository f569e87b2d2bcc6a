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
  std::vector<Part> parts;
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

// Elements [begin, begin + count) of what all bring.
template <typename T>
std::vector<T> sums(const Posts& all, std::size_t begin, std::size_t count) {
  std::vector<T> sum;
  for (const auto& [rank, post] : all) {
    const T* input = reinterpret_cast<const T*>(post->data.data()) + begin;
    if (sum.empty()) {
      sum.assign(input, input + count);
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) sum[i] = add(sum[i], input[i]);
  }
  return sum;
}

template <typename T>
void reduce(const Collective& call, const Posts& all, int rank) {
  if (call.kind == Kind::kReduce && rank != call.root) return;
  const bool scatters = call.kind == Kind::kReduceScatter;
  const std::size_t begin = scatters ? call.count * static_cast<std::size_t>(rank) : 0;
  const std::vector<T> sum = sums<T>(all, begin, call.count);
  std::memcpy(call.output, sum.data(), call.count * sizeof(T));
}

void gather(const Collective& call, const Posts& all) {
  auto* next = static_cast<std::byte*>(call.output);
  for (const auto& [rank, post] : all) next = std::copy(post->data.begin(), post->data.end(), next);
}

void broadcast(const Collective& call, const Posts& all) {
  const std::vector<std::byte>& data = all.at(call.root)->data;
  std::memcpy(call.output, data.data(), data.size());
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

void compute(const Collective& call, const Posts& all, int rank) {
  if (call.kind == Kind::kAllGather) return gather(call, all);
  if (call.kind == Kind::kBroadcast) return broadcast(call, all);
  switch (call.type) {
    case ncclFloat64:
      return reduce<double>(call, all, rank);
    case ncclFloat32:
      return reduce<float>(call, all, rank);
    case ncclFloat16:
      return reduce<__half>(call, all, rank);
    case ncclBfloat16:
      return reduce<__nv_bfloat16>(call, all, rank);
    case ncclInt32:
      return reduce<std::int32_t>(call, all, rank);
    default:
      return reduce<std::uint8_t>(call, all, rank);
  }
}

namespace {

ncclResult_t queue_part(ncclComm* comm, cudaStream_t stream, const Part& part) {
  if (open_group.depth == 0) return queue_transfers(comm, {part}, stream);
  if (!open_group.parts.empty() && (open_group.comm != comm || open_group.stream != stream))
    return nccl_call("ncclGroupStart", [](Machine& m, Lock&, Nccl&) {
      m.find("ncclGroupStart: a group over several communicators or streams");
      return ncclInvalidUsage;
    });
  open_group.comm = comm;
  open_group.stream = stream;
  open_group.parts.push_back(part);
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
  const std::vector<Part> parts = std::exchange(open_group.parts, {});
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
