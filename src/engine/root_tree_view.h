// The accelerator tier as the recogniser sees it.

#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/context.h"
#include "format/tree_view.h"

namespace cairn {

// The context must outlive it. One thread at a time.
class RootTreeView final : public TreeView {
 public:
  explicit RootTreeView(Context* context) : context_(context) {}

  // Leaves `path` out of listings from now on: what is known need not be
  // recognised again.
  void Hide(std::string path) { hidden_.insert(std::move(path)); }

  absl::StatusOr<std::vector<TreeEntry>> List(
      std::string_view directory) override;
  absl::StatusOr<std::unique_ptr<ByteSource>> Open(
      std::string_view file) override;

 private:
  Context* const context_;
  std::set<std::string> hidden_;
};

}  // namespace cairn
