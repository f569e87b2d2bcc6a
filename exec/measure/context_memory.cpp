#include "exec/measure/context_memory.h"

#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <memory>
#include <random>
#include <vector>

#include "exec/cuda_plugin.h"
#include "exec/measure/case_run.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

[[noreturn]] void fail(const char* why) {
  throw Error(ExitCode::kDevice, std::string("memory of a context: ") + why);
}

// Small ones: what the device rounds slabs up to counts as context.
std::vector<Case> cases() {
  const Case product{.kernel = KernelId::kMatmulForward,
                     .sizes = {{"T", 64}, {"k", 64}, {"n", 64}}};
  const auto heads = attention_sizes(1, 64, 2, 2, 64);
  return {product,
          {.kernel = KernelId::kAttentionForward, .sizes = heads},
          {.kernel = KernelId::kAttentionBackward, .sizes = heads}};
}

std::int64_t slab_bytes(const Case& c, const KernelSet& set) {
  std::int64_t sum = 0;
  for (const CaseOperand& operand : operands_of(c, set)) sum += operand.view.bytes().value;
  return sum;
}

// The other process: waits for the name of a kernel set, runs kernels, says how large their slabs
// are and keeps all until the pipe is closed.
void hold_context(int in, int out) {
  std::array<char, 64> id{};
  const ssize_t length = read(in, id.data(), id.size());
  if (length <= 0) return;
  const KernelSet& set =
      find_kernel_set(std::string_view(id.data(), static_cast<std::size_t>(length)));
  const auto device = load_cuda_device({});
  std::mt19937_64 random;
  std::vector<std::unique_ptr<CaseRun>> runs;
  std::int64_t slabs = 0;
  for (const Case& c : cases()) {
    runs.push_back(std::make_unique<CaseRun>(*device, set, c, draw_inputs(c, set, random)));
    runs.back()->launch();
    runs.back()->finish();
    slabs += slab_bytes(c, set);
  }
  if (write(out, &slabs, sizeof slabs) != sizeof slabs) return;
  while (read(in, id.data(), id.size()) > 0) continue;
}

}  // namespace

ContextProbe::ContextProbe() {
  std::array<int, 2> in{}, out{};
  if (pipe(in.data()) != 0 || pipe(out.data()) != 0) fail("cannot make a pipe");
  process_ = fork();
  if (process_ < 0) fail("cannot start a process");
  if (process_ == 0) {
    close(in[1]);
    close(out[0]);
    try {
      hold_context(in[0], out[1]);
    } catch (const std::exception&) {  // the closed pipe tells
    }
    _exit(0);
  }
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
}

ContextProbe::~ContextProbe() {
  close(to_);
  close(from_);
  waitpid(process_, nullptr, 0);
}

Bytes ContextProbe::taken(const Driver& driver, const KernelSet& set) {
  const Bytes before = driver.memory().free;
  std::int64_t slabs = 0;
  if (write(to_, set.id.data(), set.id.size()) != static_cast<ssize_t>(set.id.size()))
    fail("the process that was to hold one is gone");
  if (read(from_, &slabs, sizeof slabs) != sizeof slabs)
    fail("the process that was to hold one ended early");
  const Bytes taken = before - driver.memory().free - Bytes{slabs};
  if (taken.value <= 0) fail("others use the device at the same time; measure while it is idle");
  return taken;
}

}  // namespace zplan::exec
