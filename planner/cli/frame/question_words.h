// Model and cluster as words without options: "zplan plan llama3-8b 16xH100 --zero 3" is read as
// "zplan plan --model llama3-8b --cluster 16xH100 --zero 3". A name may be several words, quoted or
// not, and the cluster may come first. What is neither stays for the subcommand.
#pragma once

#include <string>
#include <vector>

#include "planner/cli/frame/completion.h"

namespace zplan {

// `arguments`: what follows the name of the subcommand. Nothing changes where it takes neither
// --model nor --cluster, or both are given. `is_named`: the subcommand was named, so that words
// which mean nothing are a model and a cluster that nobody knows, not a subcommand.
std::vector<std::string> with_question(const std::vector<std::string>& arguments,
                                       const DescribedCommand& command, bool is_named);

}  // namespace zplan
