// The file system on caches: the tree and its files as a Backend.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_CACHE_BACKEND_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_CACHE_BACKEND_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "native/igfs/backend.h"
#include "native/igfs/file_reader.h"
#include "native/igfs/file_writer.h"
#include "native/igfs/tree.h"

namespace ignite_strategy {
namespace igfs {

class CacheBackend : public Backend {
 public:
  explicit CacheBackend(std::shared_ptr<Tree> tree) : tree_(std::move(tree)) {}

  Status GetStatus(const Path& path, const Wait& wait) override { return tree_->GetStatus(path, wait); }
  std::vector<std::pair<std::string, Status>> List(const Path& path, const Wait& wait) override {
    return tree_->List(path, wait);
  }
  void MakeDirectory(const Path& path, const Wait& wait) override { tree_->MakeDirectory(path, wait); }
  void MakeDirectories(const Path& path, const Wait& wait) override { tree_->MakeDirectories(path, wait); }
  void RemoveFile(const Path& path, const Wait& wait) override { tree_->RemoveFile(path, wait); }
  void RemoveDirectory(const Path& path, const Wait& wait) override { tree_->RemoveDirectory(path, wait); }
  void RemoveTree(const Path& path, const Wait& wait) override { tree_->RemoveTree(path, wait); }
  void Rename(const Path& from, const Path& to, const Wait& wait) override { tree_->Rename(from, to, wait); }
  std::unique_ptr<ReadableFile> OpenRead(const Path& path, const Wait& wait) override {
    return FileReader::Open(tree_, path, wait);
  }
  std::unique_ptr<WritableFile> OpenWrite(const Path& path, Mode mode, const Wait& wait) override {
    return FileWriter::Open(tree_, path, mode, wait);
  }
  void Tend(const Wait& wait) override { tree_->Tend(wait); }
  Tree* tree() override { return tree_.get(); }
  const Target& target() const override { return tree_->store().target(); }

 private:
  const std::shared_ptr<Tree> tree_;
};

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_CACHE_BACKEND_H_
