// Records of "zplan.runs/2" by the table of run_keys.h: read, written, and described.
#pragma once

#include <string>

#include "planner/core/json_reader.h"
#include "planner/validate/runs.h"

namespace zplan {

inline constexpr std::string_view kRunTag = "zplan.runs/2";

// Throws Error where a key is unknown, of another type or out of range, or where one is missing.
RunRecord read_run(const JsonNode& root);
// Throws Error at a key that contradicts others of the record.
void check_run(const JsonNode& root, const RunRecord& run);

// A value as JSON in one line.
std::string fact_text(const JsonNode& node);
// The record as JSON in one line.
std::string write_run(const RunRecord& run);
// The value of a key, as JSON; empty: the record does not say it.
std::string said(const RunRecord& run, std::string_view pointer);

// A whole record to edit: keys with what they mean, and behind those of each object, as comments,
// the keys that this record has no use for.
std::string run_template();
// The JSON Schema of a record (draft 2020-12).
std::string run_schema();

}  // namespace zplan
