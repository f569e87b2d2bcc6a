// The folder that weights are written into at the end of a run: .NAME.partial beside it until all
// is there, and then NAME. Held from the start of the run, so that what cannot be written says so
// before it trains.
#pragma once

#include <string>

namespace zplan::exec {

// ".NAME.partial" beside it.
std::string partial_export(const std::string& folder);

class ExportFolder {
 public:
  // What a killed run left half done is removed. Throws Error: kBadInput when there is something in
  // the folder or another run writes it, kDevice when it cannot be made.
  explicit ExportFolder(const std::string& folder);
  ~ExportFolder();
  ExportFolder(const ExportFolder&) = delete;
  ExportFolder& operator=(const ExportFolder&) = delete;

  // Gives the folder, whose files are on the drive, its name.
  void finish();

 private:
  std::string folder_, partial_;
  int descriptor_ = -1;  // of the partial one, locked
  bool finished_ = false;
};

}  // namespace zplan::exec
