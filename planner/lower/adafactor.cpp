#include "planner/lower/adafactor.h"

namespace zplan {
namespace {

// One unit's update is made while that before it is on its way. [derived]
constexpr std::int32_t kRingSlots = 2;

// The elements [from, from + n) of a vector.
View part_of(View whole, std::int64_t from, std::int64_t n) {
  whole.offset += size_of(whole.dtype) * from;
  whole.shape = {n};
  return whole;
}

}  // namespace

Adafactor::Adafactor(Stage& stage, UnitIndex unit, Lane lane, Tier tier)
    : s_(stage),
      unit_(unit),
      lane_(lane),
      tier_(tier),
      tensors_(factored_tensors(stage.layout.units[unit])) {}

View Adafactor::buffer(const char* name, DType dtype, std::int64_t elements, Ordinal ordinal) {
  const BufferId id = s_.body.get({.name = name,
                                   .slot_size = size_of(dtype) * elements,
                                   .slots = kRingSlots,
                                   .tier = tier_,
                                   .category = Category::kGathered,
                                   .dtype = dtype});
  return view_of(id, dtype, {elements}, ordinal.slot());
}

Attributes Adafactor::place_of(const FactoredTensor& tensor, Attribute first) const {
  const std::int32_t pieces = s_.plan.zero_stage > 0 ? s_.mesh.size(s_.shard_group(unit_)) : 1;
  return {first,
          tensor.begin,
          std::int64_t{unit_},
          tensor.matrices,
          tensor.rows,
          tensor.columns,
          ceil_div(tensor.elements(), std::int64_t{pieces})};
}

// One after the other, told apart by the number of a tile. emit(tensor, its number).
template <typename Emit>
void Adafactor::each_tensor(const Emit& emit) {
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    s_.out.repeat({.count = 1, .var = Var::kTile, .first = static_cast<std::int32_t>(i)},
                  [&] { emit(tensors_[i], static_cast<std::int64_t>(i)); });
}

void Adafactor::add_up(Action action, const View& sums) {
  if (s_.plan.zero_stage == 0 || !s_.is_sharded(unit_)) return;
  s_.out.collective(role(action), Lane::kCommReduce, CollectiveKind::kAllReduce,
                    s_.shard_group(unit_), read(sums), write(sums));
}

View Adafactor::update_of(const Inputs& in) {
  const std::int64_t moments = factored_moments(s_.layout.units[unit_]),
                     tensors = std::ssize(tensors_);
  const View update_of_piece =
      buffer("update.piece", s_.kernels.statistics, in.gradient.shape.elements(), in.ordinal);
  const View sums = buffer("update.sums", DType::kF64, moments + tensors, in.ordinal);
  const View squares = buffer("update.squares", DType::kF64, tensors, in.ordinal);
  const auto size = [&](std::int64_t i) { return part_of(sums, moments + i, 1); };
  s_.out.kernel(role(Action::kMomentum), lane_, KernelId::kAdafactorGradient,
                {read(in.gradient), read(in.scalars), read(in.clip), write(update_of_piece)},
                in.place);
  each_tensor([&](const FactoredTensor& t, std::int64_t i) {
    s_.out.kernel(role(Action::kFactorSums), lane_, KernelId::kAdafactorSums,
                  {read(update_of_piece), read(in.master),
                   write(part_of(sums, t.moments_from, t.moments())), write(size(i))},
                  place_of(t, in.place[0]));
  });
  add_up(Action::kReduceFactors, sums);
  each_tensor([&](const FactoredTensor& t, std::int64_t i) {
    s_.out.kernel(
        role(Action::kFactors), lane_, KernelId::kAdafactorFactors,
        {update(update_of_piece), update(part_of(in.moments, t.moments_from, t.moments())),
         read(part_of(sums, t.moments_from, t.moments())), read(in.scalars), read(in.clip),
         write(part_of(squares, i, 1))},
        place_of(t, in.place[0]));
  });
  add_up(Action::kReduceUpdate, squares);
  each_tensor([&](const FactoredTensor& t, std::int64_t i) {
    s_.out.kernel(
        role(Action::kScaleUpdate), lane_, KernelId::kAdafactorScale,
        {update(update_of_piece), read(size(i)), read(part_of(squares, i, 1)), read(in.scalars)},
        place_of(t, in.place[0]));
  });
  return update_of_piece;
}

}  // namespace zplan
