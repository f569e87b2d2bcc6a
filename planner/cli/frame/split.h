// Lists on the command line and in tables of help.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zplan {

// "a,,b": "a", "" and "b"; of nothing one empty part.
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace zplan
