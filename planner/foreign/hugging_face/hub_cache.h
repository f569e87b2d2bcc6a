// Names of the hub, as ORG/NAME, and where its cache on this machine has their files:
// models--ORG--NAME/refs/main names a snapshot, snapshots/HASH/ has what was downloaded of it.
// Nothing is downloaded here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace zplan {

// Two words with a '/' between, which no file or folder of this machine is called.
bool is_hub_name(std::string_view name);
// The same without a look at this machine.
bool has_hub_form(std::string_view name);

// The folder that such a name has in the cache: in $HF_HUB_CACHE, else $HF_HOME/hub, else
// huggingface/hub of $XDG_CACHE_HOME or ~/.cache; whether it is there or not.
std::string hub_folder(std::string_view name);
// Returns the path of the name's config.json in the cache; nothing: it is not there.
std::optional<std::string> cached_config(std::string_view name);

}  // namespace zplan
