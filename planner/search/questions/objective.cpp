#include "planner/search/questions/objective.h"

namespace zplan {

bool QuestionRun::stopped() const { return stop && stop(); }

void QuestionRun::tell(const std::string& line) const {
  if (progress) progress(line);
}

}  // namespace zplan
