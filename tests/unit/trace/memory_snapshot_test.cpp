#include "planner/trace/memory_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/trace/pickle.h"
#include "tests/support/sample_job.h"
#include "tests/unit/trace/sample_timeline.h"

namespace zplan {
namespace {

TEST(Pickle, IsThatOfProtocolTwo) {
  PickleWriter out;
  out.begin_dict();
  out.entry("a", std::int64_t{1});
  out.put("b");
  out.begin_list();
  out.put(std::int64_t{1} << 40);
  out.put("a");
  out.end_list();
  out.end_dict();
  // As pickletools.dis reads it: {"a": 1, "b": [1099511627776, "a"]}.
  const char expected[] =
      "\x80\x02}(X\x01\x00\x00\x00"
      "ar\x00\x00\x00\x00J\x01\x00\x00\x00X\x01\x00\x00\x00"
      "br\x01\x00\x00\x00](\x8a\x08\x00\x00\x00\x00\x00\x01\x00\x00j\x00\x00\x00\x00"
      "eu.";
  EXPECT_EQ(out.finish(), std::string(expected, sizeof expected - 1));
}

TEST(MemorySnapshot, NamesBuffersAndOperations) {
  const Job job = placed_sample_job();
  const std::string pickle = memory_snapshot(job, lifetimes(job), sample_timeline_of(job, 2));
  for (const char* word : {"device_traces", "segments", "scratch", "forward.fc1.compute", "dfull"})
    EXPECT_THAT(pickle, testing::HasSubstr(word));
}

}  // namespace
}  // namespace zplan
