#include "tests/gpu/canary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace zplan::gpu {

void Canary::check(const exec::NodeEvent& event) {
  ++operations_;
  for (const Tier tier : {Tier::kGpu, Tier::kCpu})
    check_tier(event, tier, images_[event.rank][static_cast<std::size_t>(tier)]);
}

void Canary::check_tier(const exec::NodeEvent& event, Tier tier, Image& image) {
  const Bytes size = job_->class_of(event.rank).placement.slab[static_cast<std::size_t>(tier)];
  const bool is_known = image.base != nullptr;
  std::vector<const exec::Operand*> operands;
  for (const exec::Operand& operand : event.operands)
    if (event.program->buffers[operand.view->buffer].tier == tier && operand.data != nullptr)
      operands.push_back(&operand);
  if (!is_known && !operands.empty())
    image.base = operands.front()->data - operands.front()->offset.value;
  if (image.base == nullptr) return;
  now_.resize(static_cast<std::size_t>(size.value));
  device_->download(now_.data(), image.base, size);
  if (!is_known) {
    image.bytes = now_;
    return;
  }
  for (const exec::Operand* operand : operands)  // what may have changed
    if (writes(operand->view->access))
      std::memcpy(image.bytes.data() + operand->offset.value, now_.data() + operand->offset.value,
                  static_cast<std::size_t>(operand->view->bytes().value));
  if (std::memcmp(image.bytes.data(), now_.data(), now_.size()) == 0) return;
  ++findings_;
  const auto at = std::mismatch(now_.begin(), now_.end(), image.bytes.begin()).first - now_.begin();
  if (first_finding_.empty())
    first_finding_ =
        fmt::format("; {} of rank {} changes byte {} of {}",
                    name(event.program->nodes[event.node].role), event.rank, at, name(tier));
  image.bytes = now_;
}

}  // namespace zplan::gpu
