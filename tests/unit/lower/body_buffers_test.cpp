#include "planner/lower/body_buffers.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

TEST(BodyBuffers, AreAsLargeAsAnyUseInTheBodyAsks) {
  ProgramBuilder out;
  BodyBuffers body(out);
  const BufferId first = body.get({.name = "d", .slot_size = Bytes{1000}});
  EXPECT_EQ(body.get({.name = "d", .slot_size = Bytes{3000}}), first);
  EXPECT_EQ(body.get({.name = "d", .slot_size = Bytes{2000}}), first);
  EXPECT_EQ(out.buffer(first).slot_size, round_up(Bytes{3000}, kBufferAlignment));
}

TEST(BodyBuffers, EachBodyHasItsOwn) {
  ProgramBuilder out;
  BodyBuffers body(out);
  const BufferId first = body.get({.name = "d", .slot_size = Bytes{3000}});
  body.next_body();
  const BufferId second = body.get({.name = "d", .slot_size = Bytes{1000}});
  EXPECT_NE(second, first);
  EXPECT_EQ(out.buffer(second).name, "d.2");
  EXPECT_EQ(out.buffer(second).slot_size, round_up(Bytes{1000}, kBufferAlignment));
}

}  // namespace
}  // namespace zplan
