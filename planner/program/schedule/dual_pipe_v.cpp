#include "planner/program/schedule/dual_pipe_v.h"

#include <queue>

#include "planner/program/schedule/of_ranks.h"
#include "planner/program/schedule/pass_counter.h"

namespace zplan {
namespace {

using enum PassKind;

// The way in is chunk 0, the way out chunk 1.
class DualPipeV {
 public:
  DualPipeV(std::int32_t rank, std::int32_t ranks, std::int32_t micro_batches, bool beside)
      : before_(rank + 1),
        after_(ranks - rank - 1),
        rank_(rank),
        beside_(beside),
        order_(micro_batches) {
    fill();
    order_.cut();
    const std::int32_t pairs = micro_batches - least_of_dual_pipe_v(ranks) + before_;
    for (std::int32_t i = 0; i < pairs; ++i) {
      pair(0, 1);
      pair(1, 0);
    }
    order_.cut();
    drain();
  }
  PassOrder take() { return order_.take(); }

 private:
  void pair(std::int32_t forward, std::int32_t backward) {
    order_.add_both(forward, backward, beside_);
  }
  void input_part(std::int32_t chunk) {
    order_.add(kInputBackward, chunk);
    weights_left_.push(chunk);
  }
  void weight_part() {
    if (weights_left_.empty()) return;
    order_.add(kWeightBackward, weights_left_.front());
    weights_left_.pop();
  }

  void fill() {
    for (std::int32_t i = 0; i < 2 * after_; ++i) order_.add(kForward, 0);
    for (std::int32_t i = 0; i < before_; ++i) {
      order_.add(kForward, 0);
      order_.add(kForward, 1);
    }
    for (std::int32_t i = 0; i < after_; ++i) {
      input_part(1);
      weight_part();
      order_.add(kForward, 1);
    }
  }

  // In parts from the middle of the last pairs of backwards on.
  void drain() {
    for (std::int32_t i = 0; i < after_; ++i) {
      order_.add(kBackward, 1);
      pair(1, 0);
    }
    std::int32_t whole = before_ / 2 * 2 + (rank_ % 2 == 0 ? 1 : 0);
    const auto backward = [&](std::int32_t chunk) {
      if (whole-- > 0) {
        order_.add(kBackward, chunk);
      } else {
        input_part(chunk);
      }
    };
    for (std::int32_t i = 0; i < before_; ++i) {
      backward(1);
      backward(0);
    }
    for (std::int32_t i = 0; i < after_; ++i) {
      weight_part();
      backward(0);
    }
    while (!weights_left_.empty()) weight_part();
  }

  std::int32_t before_, after_;  // ranks up to this one, and those after it
  std::int32_t rank_;
  bool beside_;  // the passes of a pair
  PassCounter order_;
  std::queue<std::int32_t> weights_left_;  // chunks whose second part is to come
};

}  // namespace

PassOrder dual_pipe_v_order(std::int32_t rank, std::int32_t ranks, std::int32_t micro_batches,
                            bool beside) {
  return DualPipeV(rank, ranks, micro_batches, beside).take();
}

PipelineSchedule dual_pipe_v(std::int32_t ranks, std::int32_t micro_batches) {
  return schedule_of_ranks(v_shaped_chunks(ranks, 2), micro_batches, [=](std::int32_t rank) {
    return dual_pipe_v_order(rank, ranks, micro_batches);
  });
}

}  // namespace zplan
