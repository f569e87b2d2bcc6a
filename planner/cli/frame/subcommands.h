// The command line of each subcommand is read by a function in the folder of its family,
// FAMILY/*_options.cpp. `arguments`: what follows the subcommand's name. Each throws
// Error(kBadInput), one line, and returns ShowText where help was asked for.
#pragma once

#include <string>
#include <vector>

#include "planner/cli/frame/options.h"

namespace zplan {

Command parse_plan(const std::vector<std::string>& arguments);
// The same without a name. `footer`: what its help ends with.
Command parse_top_level(const std::vector<std::string>& arguments, const std::string& footer);
Command parse_simulate(const std::vector<std::string>& arguments);
Command parse_memory(const std::vector<std::string>& arguments);
Command parse_bandwidth(const std::vector<std::string>& arguments);
Command parse_lower(const std::vector<std::string>& arguments);
Command parse_run(const std::vector<std::string>& arguments);
Command parse_compare(const std::vector<std::string>& arguments);
Command parse_validate(const std::vector<std::string>& arguments);
Command parse_run_records(const std::vector<std::string>& arguments);
Command parse_models(const std::vector<std::string>& arguments);
Command parse_software(const std::vector<std::string>& arguments);
Command parse_clusters(const std::vector<std::string>& arguments);
Command parse_doctor(const std::vector<std::string>& arguments);
Command parse_calibrate(const std::vector<std::string>& arguments);
Command parse_sweep(const std::vector<std::string>& arguments);
Command parse_what_if(const std::vector<std::string>& arguments);
Command parse_sensitivity(const std::vector<std::string>& arguments);
Command parse_diff(const std::vector<std::string>& arguments);
Command parse_max(const std::vector<std::string>& arguments);
Command parse_goodput(const std::vector<std::string>& arguments);
Command parse_need(const std::vector<std::string>& arguments);
Command parse_explain(const std::vector<std::string>& arguments);
Command parse_why_not(const std::vector<std::string>& arguments);
Command parse_export(const std::vector<std::string>& arguments);
Command parse_check(const std::vector<std::string>& arguments);
Command parse_report(const std::vector<std::string>& arguments);

}  // namespace zplan
