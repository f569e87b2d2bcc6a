#include "planner/program/text/fingerprint.h"

#include <gtest/gtest.h>

#include "planner/program/text/text.h"
#include "tests/support/sample_job.h"

namespace zplan {
namespace {

TEST(Fingerprint, IsThirtyTwoHexDigits) {
  const std::string print = fingerprint(placed_sample_job());
  EXPECT_EQ(print.size(), 32u);
  EXPECT_EQ(print.find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(Fingerprint, SurvivesWritingAndReading) {
  const Job job = placed_sample_job();
  EXPECT_EQ(fingerprint(parse_zprog(to_text(job), "x")), fingerprint(job));
}

TEST(Fingerprint, DoesNotKnowTheModelsName) {
  Job job = placed_sample_job();
  job.model = "another";
  EXPECT_EQ(fingerprint(job), fingerprint(placed_sample_job()));
}

TEST(Fingerprint, ChangesWithTheWorkAndItsPlacement) {
  const std::string print = fingerprint(placed_sample_job());
  EXPECT_NE(fingerprint(sample_job()), print);
  Job job = placed_sample_job();
  job.classes[1].placement.offset[3] += Bytes{256};
  EXPECT_NE(fingerprint(job), print);
  job = placed_sample_job();
  job.classes[0].program.views[2].offset += Bytes{4};
  EXPECT_NE(fingerprint(job), print);
  job = placed_sample_job();
  job.classes[0].program.edges[0].reuse = true;
  EXPECT_NE(fingerprint(job), print);
}

}  // namespace
}  // namespace zplan
