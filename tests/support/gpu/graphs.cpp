// Captures and graphs of the stand-in GPU. What was captured from one stream is a branch, in order
// by itself; the branches of a launch have workers of their own and keep to the captured edges.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tests/support/gpu/machine.h"
#include "tests/support/gpu/nccl_marks.h"

namespace zplan::stand_in {
namespace {

template <typename Made>
Made* find_live(std::deque<Made>& all, const void* handle) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Made& x) { return &x == handle; });
  return found == all.end() || !found->is_live ? nullptr : &*found;
}

// Whether all nodes that a stream ended with come before the origin's last ones.
bool is_joined(const Graph& graph, const Capture& origin, const Capture& other) {
  std::vector<bool> reached(graph.nodes.size());
  std::vector<std::size_t> open(origin.last.begin(), origin.last.end());
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    open.insert(open.end(), graph.nodes[node].after.begin(), graph.nodes[node].after.end());
  }
  return std::all_of(other.last.begin(), other.last.end(),
                     [&](std::size_t node) { return reached[node]; });
}

// Takes all streams out of the capture. Returns whether those that had joined it came back.
bool leave_capture(Machine& m, Graph& graph) {
  bool are_joined = true;
  for (Stream& stream : m.streams) {
    if (!stream.capture || stream.capture->graph != &graph) continue;
    if (&stream != graph.origin && !is_joined(graph, *graph.origin->capture, *stream.capture)) {
      m.find(fmt::format("cudaStreamEndCapture: {} has not been joined", stream.agent.name));
      are_joined = false;
    }
  }
  for (Stream& stream : m.streams)
    if (stream.capture && stream.capture->graph == &graph) stream.capture.reset();
  return are_joined;
}

Branch& branch_of(Machine& m, Stream& stream, std::size_t index) {
  while (stream.branches.size() <= index) {
    Branch& branch = stream.branches.emplace_back(m);
    branch.agent =
        m.make_agent(fmt::format("branch {} of {}", stream.branches.size() - 1, stream.agent.name));
  }
  return stream.branches[index];
}

// Runs on the stream's own worker, which waits for the branches.
void run_graph(Machine& m, Stream& stream, const Graph& graph, Agent& agent) {
  Lock lock(m.mutex);
  const auto start = std::make_shared<Moment>();
  start->reached = true;
  start->clock = agent.clock;
  std::vector<MomentPtr> done;
  for (const GraphNode& node : graph.nodes) {
    std::vector<MomentPtr> after = {start};
    for (const std::size_t before : node.after) after.push_back(done[before]);
    Branch& branch = branch_of(m, stream, node.branch);
    done.push_back(std::make_shared<Moment>());
    for (const Access& access : node.work.accesses) {
      if (!m.check_range(access, node.work.what + " of a graph")) return;
      ++m.allocation_of(access.begin)->unfinished;
    }
    ++branch.unfinished;
    ++m.unfinished;
    branch.worker.push({node.work,
                        &branch.agent,
                        stream.device,
                        std::move(after),
                        done.back(),
                        {},
                        &branch.unfinished});
  }
  for (const MomentPtr& moment : done) {
    m.wait(
        lock, moment->changed, [&] { return moment->reached; },
        agent.name + " waits for its graph");
    join(agent.clock, moment->clock);
  }
}

}  // namespace
}  // namespace zplan::stand_in

using namespace zplan::stand_in;

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", [&](Machine& m, Lock&) {
    Stream* stream = m.stream_of(handle, "cudaStreamBeginCapture");
    if (stream == nullptr || handle == nullptr || stream->capture) {
      m.find("cudaStreamBeginCapture: a stream that cannot be captured, or is");
      return cudaErrorStreamCaptureUnsupported;
    }
    if (mode != cudaStreamCaptureModeRelaxed)
      m.find("cudaStreamBeginCapture: a mode in which other threads' calls spoil the capture");
    Graph& graph = m.graphs.emplace_back();
    graph.device = stream->device;
    graph.origin = stream;
    graph.priorities.push_back(stream->priority);
    stream->capture = Capture{&graph, 0, {}};
    ++stream->device->captures;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* captured) {
  return call("cudaStreamEndCapture", [&](Machine& m, Lock&) {
    Stream* stream = m.stream_of(handle, "cudaStreamEndCapture");
    if (stream == nullptr || !stream->capture || stream->capture->graph->origin != stream) {
      m.find("cudaStreamEndCapture: no capture began on that stream");
      return cudaErrorIllegalState;
    }
    Graph& graph = *stream->capture->graph;
    const bool are_joined = leave_capture(m, graph);
    graph.is_ended = true;
    --stream->device->captures;
    *captured = nullptr;
    if (!are_joined || graph.is_invalid) {
      graph.is_live = false;
      return are_joined ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined;
    }
    *captured = reinterpret_cast<cudaGraph_t>(&graph);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return call("cudaStreamIsCapturing", [&](Machine& m, Lock&) {
    const Stream* stream = m.stream_of(handle, "cudaStreamIsCapturing");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *status = !stream->capture                     ? cudaStreamCaptureStatusNone
              : stream->capture->graph->is_invalid ? cudaStreamCaptureStatusInvalidated
                                                   : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t handle,
                                 unsigned long long flags) {
  return call("cudaGraphInstantiate", [&](Machine& m, Lock&) {
    const Graph* graph = find_live(m.graphs, reinterpret_cast<const void*>(handle));
    if (graph == nullptr) {
      m.find("cudaGraphInstantiate: that is no graph");
      return cudaErrorInvalidValue;
    }
    const auto [least, most] =
        std::minmax_element(graph->priorities.begin(), graph->priorities.end());
    if (*least != *most && (flags & cudaGraphInstantiateFlagUseNodePriority) == 0)
      m.find("cudaGraphInstantiate: priorities of the captured streams are lost");
    GraphExec& made = m.executables.emplace_back(GraphExec{*graph, true});
    for (const GraphNode& node : made.graph.nodes) mark_in_graph(node.work.communicator, 1);
    *executable = reinterpret_cast<cudaGraphExec_t>(&made);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t handle) {
  return call("cudaGraphUpload", [&](Machine& m, Lock&) {
    const bool is_one = find_live(m.executables, reinterpret_cast<const void*>(executable));
    if (!is_one) m.find("cudaGraphUpload: that is no executable graph");
    return is_one && m.stream_of(handle, "cudaGraphUpload") ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  return call("cudaGraphLaunch", [&](Machine& m, Lock&) {
    Stream* stream = m.stream_of(stream_handle, "cudaGraphLaunch");
    GraphExec* executable = find_live(m.executables, reinterpret_cast<const void*>(handle));
    if (stream == nullptr || executable == nullptr || stream->capture) {
      m.find("cudaGraphLaunch: no executable graph, or no stream to launch it on");
      return cudaErrorInvalidValue;
    }
    ++m.launches;
    return m.submit(*stream, {"cudaGraphLaunch", {}, [=](Machine& at, Device&, Agent& agent) {
                                run_graph(at, *stream, executable->graph, agent);
                              }});
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  return call(
      "cudaGraphDestroy",
      [&](Machine& m, Lock&) {
        Graph* graph = find_live(m.graphs, reinterpret_cast<const void*>(handle));
        if (graph == nullptr) {
          m.find("cudaGraphDestroy: that is no graph");
          return cudaErrorInvalidValue;
        }
        graph->is_live = false;
        return cudaSuccess;
      },
      true);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return call(
      "cudaGraphExecDestroy",
      [&](Machine& m, Lock&) {
        GraphExec* found = find_live(m.executables, reinterpret_cast<const void*>(handle));
        if (found == nullptr) {
          m.find("cudaGraphExecDestroy: that is no executable graph");
          return cudaErrorInvalidValue;
        }
        found->is_live = false;
        for (const GraphNode& node : found->graph.nodes) mark_in_graph(node.work.communicator, -1);
        return cudaSuccess;
      },
      true);
}
