#include "exec/tensor_gather.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr std::int64_t kMostAtOnce = std::int64_t{256} << 20;  // [assumed] that all send at once

// From the first value that is not zero to the last one, behind the place of the first.
std::string message_of(std::span<const double> values) {
  const auto counts = [](double value) { return value != 0; };
  const auto first = std::find_if(values.begin(), values.end(), counts);
  const auto end = std::find_if(values.rbegin(), values.rend(), counts).base();
  if (first == values.end()) return "";
  const std::int64_t place = first - values.begin();
  std::string text(reinterpret_cast<const char*>(&place), sizeof place);
  return text.append(reinterpret_cast<const char*>(&*first),
                     static_cast<std::size_t>(end - first) * sizeof(double));
}

// No two processes have the same element; what none has is zero.
void add(std::span<double> values, const std::string& message) {
  if (message.empty()) return;
  std::int64_t place = 0;
  const std::size_t count = (message.size() - sizeof place) / sizeof(double);
  std::memcpy(&place, message.data(), sizeof place);
  if (place < 0 || static_cast<std::size_t>(place) + count > values.size())
    throw Error(ExitCode::kDevice, "another process sent a tensor of another size");
  std::vector<double> part(count);
  std::memcpy(part.data(), message.data() + sizeof place, count * sizeof(double));
  for (std::size_t i = 0; i < count; ++i) values[static_cast<std::size_t>(place) + i] += part[i];
}

}  // namespace

std::vector<double> gather_tensor(Rendezvous& rendezvous, int root, const Job& job,
                                  const RankMemory& own, const TensorRef& ref, State state) {
  const Tensor& tensor = job.units[ref.unit].tensors[ref.tensor];
  const auto elements = static_cast<std::size_t>(tensor.shape.elements());
  const auto most = static_cast<std::size_t>(
      std::max<std::int64_t>(1, kMostAtOnce / rendezvous.world() / std::int64_t{sizeof(double)}));
  const bool is_root = rendezvous.rank() == root;
  const std::vector<double> share = read_share(job, own, ref, state);
  std::vector<double> values(is_root ? elements : 0);
  for (std::size_t begin = 0; begin < elements; begin += most) {
    const std::size_t count = std::min(most, elements - begin);
    const auto piece = share.empty() ? std::span(share) : std::span(share).subspan(begin, count);
    for (const std::string& part : rendezvous.gather(root, message_of(piece)))
      add(std::span(values).subspan(begin, count), part);
  }
  return values;
}

}  // namespace zplan::exec
