#include "tests/support/gpu/judged_device.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "exec/cuda/cuda_device.h"
#include "tests/support/gpu/stand_in.h"

namespace zplan::stand_in {
namespace {

Access access_of(const exec::Operand& operand) {
  return {operand.data, static_cast<std::size_t>(operand.view->bytes().value),
          writes(operand.view->access)};
}

class JudgedBackend final : public exec::Backend {
 public:
  JudgedBackend(std::unique_ptr<exec::Backend> backend, std::int32_t rank)
      : backend_(std::move(backend)), rank_(rank) {}

  void prepare_thread() override { backend_->prepare_thread(); }
  void run_kernel(const exec::KernelCall& call) override {
    std::vector<Access> accesses;
    for (const exec::Operand& operand : call.operands) accesses.push_back(access_of(operand));
    const Lane lane = call.node->lane;
    if (is_launched(lane)) {
      const DeclaredAccesses declared(std::move(accesses));
      return backend_->run_kernel(call);
    }
    const HostWork work(line(lane), name(call.node->role), accesses);
    backend_->run_kernel(call);
  }
  void copy(Lane lane, const exec::Operand& from, const exec::Operand& to) override {
    if (is_launched(lane)) return backend_->copy(lane, from, to);
    const HostWork work(line(lane), "copy", {access_of(from), access_of(to)});
    backend_->copy(lane, from, to);
  }
  std::vector<exec::KernelChoice> choices() const override { return backend_->choices(); }
  exec::Queues* queues() override { return backend_->queues(); }

 private:
  std::string line(Lane lane) const { return fmt::format("{} of rank {}", name(lane), rank_); }

  std::unique_ptr<exec::Backend> backend_;
  std::int32_t rank_;
};

class JudgedDevice final : public exec::Device {
 public:
  JudgedDevice(int index, std::shared_ptr<void> keeps)
      : keeps_(std::move(keeps)), device_(exec::CudaDeviceOptions{index}) {}

  void check(const KernelSet& set) const override { device_.check(set); }
  bool ranks_may_share_graphs() const override { return device_.ranks_may_share_graphs(); }
  exec::Slab make_slab(Tier tier, Bytes size) override { return device_.make_slab(tier, size); }
  bool host_reaches(Tier tier) const override { return device_.host_reaches(tier); }
  void download(std::byte* to, const std::byte* from, Bytes bytes) override {
    device_.download(to, from, bytes);
  }
  void upload(std::byte* to, const std::byte* from, Bytes bytes) override {
    device_.upload(to, from, bytes);
  }
  std::unique_ptr<exec::Backend> make_backend(const Job& job, std::int32_t rank, int threads,
                                              const exec::KnownChoices& known) override {
    return std::make_unique<JudgedBackend>(device_.make_backend(job, rank, threads, known), rank);
  }
  std::unique_ptr<exec::QueuedComm> make_comm(exec::Queues& queues,
                                              const exec::ProcessGroup& group) override {
    return device_.make_comm(queues, group);
  }
  bool has_comm() const override { return device_.has_comm(); }

 private:
  std::shared_ptr<void> keeps_;
  exec::cuda::CudaDevice device_;
};

}  // namespace

std::unique_ptr<exec::Device> make_judged_device(int index, std::shared_ptr<void> keeps) {
  return std::make_unique<JudgedDevice>(index, std::move(keeps));
}

}  // namespace zplan::stand_in
