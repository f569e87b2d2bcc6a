// What a wrong backend would do to CUDA, and that the stand-in GPU says so by name.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "tests/crosscheck/gpu/calls.h"
#include "tests/support/gpu/stand_in.h"

namespace zplan::stand_in {
namespace {

// Its calls leave a finding that has this text.
struct Misuse {
  const char* name;
  const char* finding;
  std::function<void(StandIn&)> calls;
  Options options{};
};

class Misused : public testing::TestWithParam<Misuse> {};

TEST_P(Misused, IsFound) {
  StandIn gpu(GetParam().options);
  GetParam().calls(gpu);
  EXPECT_THAT(gpu.close(), testing::Contains(testing::HasSubstr(GetParam().finding)));
}

std::string name_of_misuse(const testing::TestParamInfo<Misuse>& misuse) {
  return misuse.param.name;
}

// ---- memory, streams, events
// ---------------------------------------------------------------------

void copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}

// A stream that waits for a flag until the object goes.
class Held {
 public:
  explicit Held(cudaStream_t stream) : flag_(static_cast<Word*>(pinned(sizeof(Word)))) {
    flag_->store(0);
    wait_for(stream, flag_, 1);
  }
  void open() { flag_->store(1); }

 private:
  using Word = std::atomic<std::uint64_t>;
  Word* flag_;
};

void free_too_early(StandIn&) {
  const cudaStream_t stream = make_stream();
  void* memory = device(64);
  Held held(stream);
  copy(memory, device(64), 64, stream);
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    held.open();
  });
  cudaFree(memory);
  opens.join();
}

void destroy_a_busy_stream(StandIn&) {
  const cudaStream_t stream = make_stream();
  Held held(stream);
  cudaStreamDestroy(stream);
  held.open();
}

void begin_streams_from_two_threads(StandIn&) {
  void *from = device(64), *to = device(64);
  const cudaStream_t first = make_stream(), second = make_stream();
  copy(to, from, 64, first);
  std::thread([&] { copy(from, to, 64, second); }).join();
}

void copy_on_two_streams(StandIn&) {
  void *from = device(64), *to = device(64);
  copy(to, from, 64, make_stream());
  copy(to, from, 64, make_stream());
  cudaDeviceSynchronize();
}

// The second stream waits for the event of a third.
void swap_events(StandIn&) {
  const cudaStream_t writer = make_stream(), reader = make_stream(), other = make_stream();
  const cudaEvent_t right = make_event(), wrong = make_event();
  void *a = device(64), *b = device(64), *c = device(64);
  copy(b, a, 64, writer);
  cudaEventRecord(right, writer);
  cudaEventRecord(wrong, other);
  cudaStreamWaitEvent(reader, wrong, 0);
  copy(c, b, 64, reader);
  cudaDeviceSynchronize();
}

void record_too_early(StandIn&) {
  const cudaStream_t writer = make_stream(), reader = make_stream();
  const cudaEvent_t event = make_event();
  void *a = device(64), *b = device(64), *c = device(64);
  cudaEventRecord(event, writer);
  copy(b, a, 64, writer);
  cudaStreamWaitEvent(reader, event, 0);
  copy(c, b, 64, reader);
  cudaDeviceSynchronize();
}

void write_what_is_read(StandIn&) {
  const cudaStream_t reader = make_stream(), writer = make_stream();
  void *a = device(64), *b = device(64);
  copy(b, a, 64, reader);
  copy(a, device(64), 64, writer);
  cudaDeviceSynchronize();
}

void download_too_early(StandIn&) {
  void* a = device(64);
  char host[64];
  copy(a, device(64), 64, make_stream());
  cudaMemcpy(host, a, 64, cudaMemcpyDefault);
  cudaDeviceSynchronize();
}

// What was pageable is read when the call returns, not yet written.
void use_an_upload_too_early(StandIn&) {
  void* memory = device(64);
  const char host[64] = {};
  cudaMemcpy(memory, host, 64, cudaMemcpyDefault);
  copy(device(64), memory, 64, make_stream());
  cudaDeviceSynchronize();
}

void kernel_beside_a_copy(StandIn&) {
  void* memory = device(64);
  copy(device(64), memory, 64, make_stream());
  const DeclaredAccesses declared({write_of(memory, 64)});
  launch_nothing(make_stream(), 1, 32);
  cudaDeviceSynchronize();
}

// A stream copies what a thread of the host has written, which tells of it by a flag.
void upload_host_work(bool waits) {
  const cudaStream_t stream = make_stream();
  void* memory = pinned(64);
  auto* flag = static_cast<std::atomic<std::uint64_t>*>(pinned(8));
  { const HostWork work("lane", "kernel", {write_of(memory, 64)}); }
  flag->store(1);
  if (waits) wait_for(stream, flag, 1);
  copy(device(64), memory, 64, stream);
  cudaDeviceSynchronize();
}

// The host writes what a stream may still read.
void overwrite_too_early(StandIn&) {
  void* memory = pinned(64);
  copy(device(64), memory, 64, make_stream());
  const HostWork work("lane", "kernel", {write_of(memory, 64)});
  cudaDeviceSynchronize();
}

void share_a_hardware_queue(StandIn&) {
  const cudaStream_t first = make_stream(), second = make_stream();
  auto* flag = pinned(8);
  wait_for(first, flag, 1);
  write_to(second, flag, 1);
  cudaDeviceSynchronize();
}

const Misuse kOfStreams[] = {
    {"CopyBeyondTheEnd", "32 beyond the end of an allocation of 64 bytes",
     [](StandIn&) { copy(device(64), device(96), 96, make_stream()); }},
    {"UseAfterFree", "use of 64 bytes of memory of device 0 after its end",
     [](StandIn&) {
       void* memory = device(64);
       cudaFree(memory);
       copy(memory, device(64), 64, make_stream());
     }},
    {"UseAfterFreeOfPinnedMemory", "use of 64 bytes of pinned memory after its end",
     [](StandIn&) {
       void* memory = pinned(64);
       cudaFreeHost(memory);
       copy(device(64), memory, 64, make_stream());
     }},
    {"PageableMemory", "memory that is neither the device's nor pinned",
     [](StandIn&) {
       static char memory[64];
       copy(device(64), memory, 64, make_stream());
     }},
    {"DoubleFree", "cudaFree: 64 bytes of memory of device 0 a second time",
     [](StandIn&) {
       void* memory = device(64);
       cudaFree(memory);
       cudaFree(memory);
     }},
    {"FreeOfAMiddle", "cudaFree: no allocation of its kind begins there",
     [](StandIn&) { cudaFree(static_cast<char*>(device(64)) + 8); }},
    {"FreeOfTheWrongKind", "cudaFreeHost: no allocation of its kind begins there",
     [](StandIn&) { cudaFreeHost(device(64)); }},
    {"EarlyFree", "tasks have yet to use these 64 bytes", free_too_early},
    {"AllocationInAStep", "cudaMalloc: 64 bytes within a step",
     [](StandIn& gpu) {
       gpu.forbid_allocations(true);
       device(64);
     }},
    {"FreeInAStep", "cudaFree: within a step",
     [](StandIn& gpu) {
       void* memory = device(64);
       gpu.forbid_allocations(true);
       cudaFree(memory);
     }},
    {"FirstWorkFromTwoThreads", "is first used by another thread than the streams before it",
     begin_streams_from_two_threads},
    {"LostMemory", "left over: an allocation of 64 bytes", [](StandIn&) { device(64); }},
    {"LostStream", "left over: 1 of streams", [](StandIn&) { make_stream(); }},
    {"LostEvent", "left over: 1 of events", [](StandIn&) { make_event(); }},
    {"StreamAfterItsEnd", "cudaMemcpyAsync: stream 0 of device 0 was destroyed",
     [](StandIn&) {
       const cudaStream_t stream = make_stream();
       cudaStreamDestroy(stream);
       copy(device(64), device(64), 64, stream);
     }},
    {"BusyStreamDestroyed", "cudaStreamDestroy: stream 0 of device 0 has 1 tasks to do",
     destroy_a_busy_stream},
    {"StreamThatBlocks", "a stream that waits for the stream 0",
     [](StandIn&) {
       cudaStream_t stream = nullptr;
       cudaStreamCreateWithPriority(&stream, cudaStreamDefault, 0);
     }},
    {"StreamOfAnotherDevice",
     "stream 0 of device 1 is not of the thread's device",
     [](StandIn&) {
       cudaSetDevice(1);
       const cudaStream_t stream = make_stream();
       cudaSetDevice(0);
       launch_nothing(stream, 1, 32);
     },
     {.devices = 2}},
    {"EmptyGrid", "a grid of 0 blocks of 32 threads",
     [](StandIn&) { launch_nothing(make_stream(), 0, 32); }},
    {"LargeBlock", "a grid of 1 blocks of 2048 threads",
     [](StandIn&) { launch_nothing(make_stream(), 1, 2048); }},
    {"EventAfterItsEnd", "cudaEventRecord: an event that does not exist, or not any more",
     [](StandIn&) {
       const cudaEvent_t event = make_event();
       cudaEventDestroy(event);
       cudaEventRecord(event, make_stream());
     }},
    {"EventOfAnotherDevice",
     "an event of another device than the stream's",
     [](StandIn&) {
       const cudaEvent_t event = make_event();
       cudaSetDevice(1);
       cudaEventRecord(event, make_stream());
     },
     {.devices = 2}},
    {"EventThatNobodyRecorded", "stream 0 of device 0 waits for an event that nobody recorded",
     [](StandIn&) { cudaStreamWaitEvent(make_stream(), make_event(), 0); }},
    {"TimeWithoutTiming", "an event without timing, or that nobody recorded",
     [](StandIn&) {
       float time = 0;
       cudaEventElapsedTime(&time, make_event(), make_event());
     }},
    {"TwoWriters", "race: cudaMemcpyAsync on stream", copy_on_two_streams, {.delay_seed = 0}},
    {"SwappedEvent", "nothing orders it after cudaMemcpyAsync on stream", swap_events},
    {"EventBeforeTheWork", "nothing orders it after cudaMemcpyAsync on stream", record_too_early},
    {"WriteOfWhatIsRead", "nothing orders it after cudaMemcpyAsync on stream", write_what_is_read},
    {"EarlyDownload", "race: cudaMemcpy", download_too_early},
    {"EarlyUseOfAnUpload", "race: ", use_an_upload_too_early},
    {"KernelBesideACopy", "race: ", kernel_beside_a_copy},
    {"UploadWithoutAFlag", "nothing orders it after kernel on lane",
     [](StandIn&) { upload_host_work(false); }},
    {"HostBesideACopy", "race: ", overwrite_too_early},
    {"FlagOffItsPlace", "cuStreamWaitValue64: a word that is not on 8 bytes",
     [](StandIn&) { wait_for(make_stream(), static_cast<char*>(pinned(64)) + 4, 1); }},
    {"FlagInPageableMemory", "cuStreamWriteValue64: 8 bytes of memory that is neither",
     [](StandIn&) {
       static std::uint64_t flag;
       write_to(make_stream(), &flag, 1);
     }},
    {"FlagWithEquality", "not a wait for at least",
     [](StandIn&) {
       auto* flag = static_cast<std::uint64_t*>(pinned(8));
       *flag = 1;
       wait_for(make_stream(), flag, 1, CU_STREAM_WAIT_VALUE_EQ);
       cudaDeviceSynchronize();
     }},
    {"WaitInFrontOfItsWrite",
     "the device stands still: ",
     share_a_hardware_queue,
     {.hardware_queues = 1, .patience = std::chrono::milliseconds(20)}},
};
INSTANTIATE_TEST_SUITE_P(Streams, Misused, testing::ValuesIn(kOfStreams), name_of_misuse);

// ---- captures and graphs
// -------------------------------------------------------------------------

// A capture of one copy, from beginning to end, with something in between.
cudaGraph_t capture(cudaStream_t stream, const std::function<void()>& between) {
  void *a = device(64), *b = device(64);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  copy(a, b, 64, stream);
  between();
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);
  return graph;
}

cudaGraphExec_t instantiate(cudaGraph_t graph) {
  cudaGraphExec_t executable = nullptr;
  cudaGraphInstantiate(&executable, graph, 0);
  return executable;
}

void launch_with_freed_memory(StandIn&) {
  const cudaStream_t stream = make_stream();
  void *a = device(64), *b = device(64);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  copy(a, b, 64, stream);
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);
  const cudaGraphExec_t executable = instantiate(graph);
  cudaFree(a);
  cudaGraphLaunch(executable, stream);
  cudaDeviceSynchronize();
}

void capture_two_priorities(StandIn&) {
  const cudaStream_t low = make_stream(0), high = make_stream(-5);
  const cudaEvent_t fork = make_event(), joint = make_event();
  instantiate(capture(low, [&] {
    cudaEventRecord(fork, low);
    cudaStreamWaitEvent(high, fork, 0);
    copy(device(64), device(64), 64, high);
    cudaEventRecord(joint, high);
    cudaStreamWaitEvent(low, joint, 0);
  }));
}

const Misuse kOfGraphs[] = {
    {"AllocationInACapture", "cudaMalloc: 32 bytes while a stream is captured",
     [](StandIn&) { capture(make_stream(), [] { device(32); }); }},
    {"QueryOfACapturedEvent",
     "cudaEventQuery: an event that was recorded in a capture, used outside of it",
     [](StandIn&) {
       const cudaStream_t stream = make_stream();
       const cudaEvent_t event = make_event();
       capture(stream, [&] { cudaEventRecord(event, stream); });
       cudaEventQuery(event);
     }},
    {"WaitForACapturedEvent",
     "cudaStreamWaitEvent: an event that was recorded in a capture, used outside of it",
     [](StandIn&) {
       const cudaStream_t stream = make_stream();
       const cudaEvent_t event = make_event();
       capture(stream, [&] { cudaEventRecord(event, stream); });
       cudaStreamWaitEvent(make_stream(), event, 0);
     }},
    {"WaitForAnEventFromOutside",
     "stream 0 of device 0 is captured, the event was recorded outside",
     [](StandIn&) {
       const cudaStream_t stream = make_stream();
       const cudaEvent_t event = make_event();
       cudaEventRecord(event, make_stream());
       capture(stream, [&] { cudaStreamWaitEvent(stream, event, 0); });
     }},
    {"StreamThatIsNotJoined", "cudaStreamEndCapture: stream 1 of device 0 has not been joined",
     [](StandIn&) {
       const cudaStream_t stream = make_stream(), other = make_stream();
       const cudaEvent_t event = make_event();
       capture(stream, [&] {
         cudaEventRecord(event, stream);
         cudaStreamWaitEvent(other, event, 0);
         copy(device(64), device(64), 64, other);
       });
     }},
    {"SynchronisationInACapture", "cudaStreamSynchronize: stream 0 of device 0 is captured",
     [](StandIn&) {
       const cudaStream_t stream = make_stream();
       capture(stream, [&] { cudaStreamSynchronize(stream); });
     }},
    {"FlagInACapture", "cuStreamWriteValue64: stream 0 of device 0 is captured",
     [](StandIn&) {
       const cudaStream_t stream = make_stream();
       void* flag = pinned(8);
       capture(stream, [&] { write_to(stream, flag, 1); });
     }},
    {"TimingInACapture", "an event with timing within a capture",
     [](StandIn&) {
       const cudaStream_t stream = make_stream();
       cudaEvent_t event = nullptr;
       cudaEventCreateWithFlags(&event, cudaEventDefault);
       capture(stream, [&] { cudaEventRecord(event, stream); });
     }},
    {"CaptureThatOthersSpoil", "a mode in which other threads' calls spoil the capture",
     [](StandIn&) { cudaStreamBeginCapture(make_stream(), cudaStreamCaptureModeGlobal); }},
    {"EndWithoutABeginning", "cudaStreamEndCapture: no capture began on that stream",
     [](StandIn&) {
       cudaGraph_t graph = nullptr;
       cudaStreamEndCapture(make_stream(), &graph);
     }},
    {"LostPriorities", "priorities of the captured streams are lost", capture_two_priorities},
    {"GraphAfterItsEnd", "cudaGraphLaunch: no executable graph",
     [](StandIn&) {
       const cudaStream_t stream = make_stream();
       const cudaGraphExec_t executable = instantiate(capture(stream, [] {}));
       cudaGraphExecDestroy(executable);
       cudaGraphLaunch(executable, stream);
     }},
    {"GraphOfFreedMemory", "cudaMemcpyAsync of a graph: use of 64 bytes", launch_with_freed_memory},
    {"LostGraph", "left over: 1 of executable graphs",
     [](StandIn&) { instantiate(capture(make_stream(), [] {})); }},
};
INSTANTIATE_TEST_SUITE_P(Graphs, Misused, testing::ValuesIn(kOfGraphs), name_of_misuse);

// ---- products
// ------------------------------------------------------------------------------------

const Misuse kOfProducts[] = {
    {"LeadingDimension", "the leading dimension of A is 7, below its 8 rows",
     [](StandIn&) { multiply(Product{.lda = 7}); }},
    {"Sizes", "the sizes of A, B and D do not fit together",
     [](StandIn&) { multiply(Product{.k_of_b = 24}); }},
    {"AuxiliaryLeadingDimension", "the auxiliary leading dimension is 12, for 8 rows",
     [](StandIn&) { multiply(Product{.epilogue = CUBLASLT_EPILOGUE_DGELU, .aux_ld = 12}); }},
    {"AuxiliaryRows", "the auxiliary leading dimension is 0, for 8 rows",
     [](StandIn&) { multiply(Product{.epilogue = CUBLASLT_EPILOGUE_DGELU, .aux_ld = 0}); }},
    {"NoAuxiliaryMatrix", "an epilogue without its auxiliary matrix",
     [](StandIn&) { multiply(Product{.epilogue = CUBLASLT_EPILOGUE_DGELU, .has_aux = false}); }},
    {"NoVector", "an epilogue without its vector",
     [](StandIn&) { multiply(Product{.epilogue = CUBLASLT_EPILOGUE_BIAS, .has_vector = false}); }},
    {"TypeOfTheVector", "the vector of the epilogue has not the type of D",
     [](StandIn&) {
       multiply(Product{.epilogue = CUBLASLT_EPILOGUE_BIAS, .vector_type = CUDA_R_16BF});
     }},
    {"AnotherAlgorithm", "the algorithm was chosen for another product",
     [](StandIn&) { multiply(Product{.changes_after_choice = true}); }},
    {"Alignment", "an operand is aligned less than was promised",
     [](StandIn&) { multiply(Product{.offset_of_a = 4}); }},
    {"SmallWorkspace", "bytes of workspace, got 16",
     [](StandIn&) { multiply(Product{.workspace = 16}); }},
    {"WorkspaceOffItsPlace", "the workspace is not on 16 bytes",
     [](StandIn&) { multiply(Product{.offset_of_workspace = 4}); }},
    {"InPlace", "D overlaps A or B", [](StandIn&) { multiply(Product{.d_is_a = true}); }},
    {"MatrixBeyondTheEnd", "beyond the end of an allocation",
     [](StandIn&) { multiply(Product{.lda = 64}); }},
    {"RaceOfAProduct", "race: ", [](StandIn&) { multiply(Product{.races = true}); }},
};
INSTANTIATE_TEST_SUITE_P(Products, Misused, testing::ValuesIn(kOfProducts), name_of_misuse);

// [cuBLAS] of products in fp8; a scale that is left out is 1, in silence.
const Misuse kOfFp8[] = {
    {"NotTransposed", "fp8 takes A transposed and B as it is",
     [](StandIn&) { multiply(Fp8Product{.turns_a = CUBLAS_OP_N}); }},
    {"SizesOffSixteen", "of 72 x 32, 72 apart, does not go with fp8: multiples of 16 do",
     [](StandIn&) { multiply(Fp8Product{.k = 72, .ldb = 80}); }},
    {"LeadingDimensionOffSixteen", "B of 64 x 16, 72 apart, does not go with fp8",
     [](StandIn&) { multiply(Fp8Product{.ldb = 72}); }},
    {"OperandOffSixteenBytes", "an operand is aligned less than was promised",
     [](StandIn&) { multiply(Fp8Product{.offset_of_b = 8}); }},
    {"NoScale", "an operand in fp8 has no scale",
     [](StandIn&) { multiply(Fp8Product{.has_scale_of_b = false}); }},
    {"ScaleOffItsPlace", "the scale of an operand in fp8 is no float",
     [](StandIn&) { multiply(Fp8Product{.offset_of_scale = 2}); }},
    {"BothE5m2", "A and B are both e5m2",
     [](StandIn&) { multiply(Fp8Product{.a = CUDA_R_8F_E5M2}); }},
    {"OneInFp8", "one of A and B is fp8", [](StandIn&) { multiply(Fp8Product{.a = CUDA_R_16BF}); }},
    {"ScaleOfBf16", "operands that are not in fp8 have a scale",
     [](StandIn&) { multiply(Fp8Product{.a = CUDA_R_16BF, .b = CUDA_R_16BF}); }},
    {"RaceOfAScale", "race: ", [](StandIn&) { multiply(Fp8Product{.races = true}); }},
};
INSTANTIATE_TEST_SUITE_P(Fp8, Misused, testing::ValuesIn(kOfFp8), name_of_misuse);

TEST(Fp8, IsOfDevicesFromAdaOn) {
  for (const int capability : {80, 89, 90}) {
    StandIn gpu({.capability = capability});
    EXPECT_EQ(multiply(Fp8Product{}), capability >= 89) << capability;
    for (const std::string& finding : gpu.close())
      EXPECT_THAT(finding, testing::HasSubstr("left over"));
  }
}

// ---- communication
// -------------------------------------------------------------------------------

constexpr Options kTwo{.devices = 2, .patience = std::chrono::milliseconds(300)};

// Both ranks' all-reduce of `count` floats, on a stream each.
void reduce(const Pair& pair, std::size_t count, cudaStream_t first, cudaStream_t second) {
  pair.on(0, [&](ncclComm_t comm, void* data) {
    ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, first);
  });
  pair.on(1, [&](ncclComm_t comm, void* data) {
    ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, second);
  });
}

// A second communicator, and streams for each on each device.
void launch_in_two_orders(StandIn&) {
  const Pair one, two;
  const cudaStream_t a0 = one.stream(0), a1 = one.stream(1), b0 = two.stream(0), b1 = two.stream(1);
  const auto launch = [](const Pair& pair, int rank, cudaStream_t stream) {
    pair.on(rank, [&](ncclComm_t comm, void* data) {
      ncclAllReduce(data, data, 4, ncclFloat32, ncclSum, comm, stream);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  launch(one, 0, a0);
  launch(two, 1, b1);
  launch(two, 0, b0);
  launch(one, 1, a1);
  one.finish();
}

void destroy_before_the_graph(StandIn&) {
  const Pair pair;
  cudaSetDevice(0);
  const cudaStream_t stream = pair.stream(0);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  pair.on(0, [&](ncclComm_t comm, void* data) {
    ncclAllReduce(data, data, 4, ncclFloat32, ncclSum, comm, stream);
  });
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);
  instantiate(graph);
  ncclCommDestroy(pair.comm(0));
}

const Misuse kOfNccl[] = {
    {"KindsDiffer", "is ncclBroadcast of 4 elements",
     [](StandIn&) {
       const Pair pair;
       pair.on(0, [&](ncclComm_t comm, void* data) {
         ncclAllReduce(data, data, 4, ncclFloat32, ncclSum, comm, pair.stream(0));
       });
       std::this_thread::sleep_for(std::chrono::milliseconds(50));
       pair.on(1, [&](ncclComm_t comm, void* data) {
         ncclBroadcast(data, data, 4, ncclFloat32, 0, comm, pair.stream(1));
       });
       pair.finish();
     },
     kTwo},
    {"CountsDiffer", "ncclAllReduce of 8 elements of type 7, root 0 on rank",
     [](StandIn&) {
       const Pair pair;
       pair.on(0, [&](ncclComm_t comm, void* data) {
         ncclAllReduce(data, data, 4, ncclFloat32, ncclSum, comm, pair.stream(0));
       });
       pair.on(1, [&](ncclComm_t comm, void* data) {
         ncclAllReduce(data, data, 8, ncclFloat32, ncclSum, comm, pair.stream(1));
       });
       pair.finish();
     },
     kTwo},
    {"TypesDiffer", "elements of type 9",
     [](StandIn&) {
       const Pair pair;
       pair.on(0, [&](ncclComm_t comm, void* data) {
         ncclAllReduce(data, data, 4, ncclFloat32, ncclSum, comm, pair.stream(0));
       });
       pair.on(1, [&](ncclComm_t comm, void* data) {
         ncclAllReduce(data, data, 4, ncclBfloat16, ncclSum, comm, pair.stream(1));
       });
       pair.finish();
     },
     kTwo},
    {"RootsDiffer", "root 1 on rank 1",
     [](StandIn&) {
       const Pair pair;
       for (int rank : {0, 1})
         pair.on(rank, [&](ncclComm_t comm, void* data) {
           ncclBroadcast(data, data, 4, ncclFloat32, rank, comm, pair.stream(rank));
         });
       pair.finish();
     },
     kTwo},
    {"RootOutOfRange", "ncclBroadcast: root 2 of 2 ranks",
     [](StandIn&) {
       const Pair pair;
       pair.on(0, [&](ncclComm_t comm, void* data) {
         ncclBroadcast(data, data, 4, ncclFloat32, 2, comm, pair.stream(0));
       });
     },
     kTwo},
    {"OutputOverInput", "ncclAllGather: the output overlaps the input",
     [](StandIn&) {
       const Pair pair;
       pair.on(1, [&](ncclComm_t comm, void* data) {
         ncclAllGather(data, data, 4, ncclFloat32, comm, pair.stream(1));
       });
     },
     kTwo},
    {"BufferBeyondTheEnd", "ncclAllReduce: 4 beyond the end",
     [](StandIn&) {
       const Pair pair;
       pair.on(0, [&](ncclComm_t comm, void* data) {
         ncclAllReduce(data, data, Pair::kFloats + 1, ncclFloat32, ncclSum, comm, pair.stream(0));
       });
     },
     kTwo},
    {"CommunicatorsOutOfOrder", "communicators out of order: ", launch_in_two_orders, kTwo},
    {"TransfersDiffer", "rank 0 sends 4 elements of type 7, rank 1 expects 5 of type 7",
     [](StandIn&) {
       const Pair pair;
       pair.on(0, [&](ncclComm_t comm, void* data) {
         ncclSend(data, 4, ncclFloat32, 1, comm, pair.stream(0));
       });
       pair.on(1, [&](ncclComm_t comm, void* data) {
         ncclRecv(data, 5, ncclFloat32, 0, comm, pair.stream(1));
       });
       pair.finish();
     },
     kTwo},
    {"PeerOutOfRange", "ncclSend: peer 2 of 2 ranks",
     [](StandIn&) {
       const Pair pair;
       pair.on(0, [&](ncclComm_t comm, void* data) {
         ncclSend(data, 4, ncclFloat32, 2, comm, pair.stream(0));
       });
     },
     kTwo},
    {"PartnerWhoDoesNotCome", "waits for its partners",
     [](StandIn&) {
       const Pair pair;
       pair.on(0, [&](ncclComm_t comm, void* data) {
         ncclAllReduce(data, data, 4, ncclFloat32, ncclSum, comm, pair.stream(0));
       });
       pair.finish();
     },
     kTwo},
    {"StreamOfAnotherDeviceThanTheCommunicator",
     "a stream of another device than the communicator's",
     [](StandIn&) {
       const Pair pair;
       reduce(pair, 4, pair.stream(1), pair.stream(1));
     },
     kTwo},
    {"TwoStreams", "is used on two streams",
     [](StandIn&) {
       const Pair pair;
       reduce(pair, 4, pair.stream(0), pair.stream(1));
       cudaSetDevice(0);
       reduce(pair, 4, make_stream(), pair.stream(1));
       pair.finish();
     },
     kTwo},
    {"TwoRanksOnADevice", "two of its ranks are on device 0",
     [](StandIn&) { const Pair pair(0, 0); }, kTwo},
    {"CommunicatorAfterItsEnd", "ncclAllReduce: a communicator that does not exist",
     [](StandIn&) {
       const Pair pair;
       ncclCommDestroy(pair.comm(0));
       reduce(pair, 4, pair.stream(0), pair.stream(1));
     },
     kTwo},
    {"BusyCommunicatorDestroyed", "has 1 operations to do",
     [](StandIn&) {
       const Pair pair;
       pair.on(0, [&](ncclComm_t comm, void* data) {
         ncclAllReduce(data, data, 4, ncclFloat32, ncclSum, comm, pair.stream(0));
       });
       ncclCommDestroy(pair.comm(0));
     },
     kTwo},
    {"CommunicatorDestroyedBeforeItsGraph", "graphs have operations of communicator",
     destroy_before_the_graph, kTwo},
    {"LostCommunicator", "left over: communicator 1", [](StandIn&) { const Pair pair; }, kTwo},
    {"EndOfNoGroup", "ncclGroupEnd: no group has begun", [](StandIn&) { ncclGroupEnd(); }},
};
INSTANTIATE_TEST_SUITE_P(Nccl, Misused, testing::ValuesIn(kOfNccl), name_of_misuse);

// What is right is no finding.
TEST(StandInGpu, TakesWhatIsRight) {
  StandIn gpu(kTwo);
  const Pair pair;
  reduce(pair, 4, pair.stream(0), pair.stream(1));
  pair.finish();
  multiply(Product{});
  multiply(Product{.epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS});
  upload_host_work(true);
  EXPECT_EQ(gpu.findings(), std::vector<std::string>{});
  EXPECT_EQ(gpu.collectives(), 1);
}

// What is queued on a device that failed never runs, so its memory may go.
TEST(StandInGpu, RunsNothingOnADeviceThatFailed) {
  constexpr std::chrono::milliseconds kLook{10};
  StandIn gpu;
  void* const memory = device(64);
  void* const other = pinned(64);
  const cudaStream_t failing = make_stream(), waiting = make_stream();
  Held held(waiting);
  copy(memory, other, 64, waiting);
  std::this_thread::sleep_for(kLook);  // the wait is under way
  const std::int64_t done = gpu.tasks();
  gpu.fail_task(0, cudaErrorECCUncorrectable);
  copy(memory, other, 64, failing);
  while (gpu.tasks() == done) std::this_thread::sleep_for(kLook);
  cudaFree(memory);
  held.open();
  while (gpu.tasks() < done + 3) std::this_thread::sleep_for(kLook);
  EXPECT_EQ(gpu.findings(), std::vector<std::string>{});
}

}  // namespace
}  // namespace zplan::stand_in
