// The subcommands, one command_*.cpp each. They write their result to stdout, everything else to
// stderr, and return the exit code; bad input and devices are thrown as Error.
#pragma once

#include "planner/cli/frame/options.h"
#include "planner/core/error.h"

namespace zplan {

ExitCode execute(const ShowText& command);
ExitCode execute(const PlanCommand& command);
ExitCode execute(const SimulateCommand& command);
ExitCode execute(const MemoryCommand& command);
ExitCode execute(const BandwidthCommand& command);
ExitCode execute(const LowerCommand& command);
ExitCode execute(const RunCommand& command);
ExitCode execute(const CompareCommand& command);
ExitCode execute(const ValidateCommand& command);
ExitCode execute(const ModelsCommand& command);
ExitCode execute(const SoftwareCommand& command);
ExitCode execute(const RunsCommand& command);
ExitCode execute(const ClustersCommand& command);
ExitCode execute(const DoctorCommand& command);
ExitCode execute(const CalibrateCommand& command);
ExitCode execute(const SuggestCommand& command);
ExitCode execute(const SweepCommand& command);
ExitCode execute(const WhatIfCommand& command);
ExitCode execute(const SensitivityCommand& command);
ExitCode execute(const DiffCommand& command);
ExitCode execute(const MaxCommand& command);
ExitCode execute(const GoodputCommand& command);
ExitCode execute(const NeedCommand& command);
ExitCode execute(const ExplainCommand& command);
ExitCode execute(const WhyNotCommand& command);
ExitCode execute(const ExportCommand& command);
ExitCode execute(const CheckCommand& command);
ExitCode execute(const ReportCommand& command);

}  // namespace zplan
