// What --json prints and what model, node and cluster files hold, described: a JSON Schema (draft
// 2020-12) per tag, "zplan.sweep/1", "zplan.model/1".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zplan {

std::vector<std::string> schema_tags();
// `name`: a tag or its word, "sweep". Throws Error naming the nearest.
std::string schema_text(std::string_view name);

}  // namespace zplan
