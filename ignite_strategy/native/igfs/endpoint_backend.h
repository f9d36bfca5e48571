// The file system of IGFS behind its own endpoint (Ignite <= 2.8.1) as a Backend.
//
// What the server does not do is made from what it does: a file is written under a name of its own and
// renamed when it is published; one that is replaced is renamed aside first, and found there until the new
// one is in its place.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_ENDPOINT_BACKEND_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_ENDPOINT_BACKEND_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "native/endpoint/client.h"
#include "native/igfs/backend.h"

namespace ignite_strategy {
namespace igfs {

// The property that tells a file from another one that took its name.
constexpr char kIdProperty[] = "igs.id";

struct Found {
  Path at;  // the path itself, or where its old version waits
  endpoint::FileInfo info;
};

class EndpointBackend : public Backend, public std::enable_shared_from_this<EndpointBackend> {
 public:
  static std::shared_ptr<EndpointBackend> Mount(const Target& target);
  explicit EndpointBackend(Target target);

  Status GetStatus(const Path& path, const Wait& wait) override;
  std::vector<std::pair<std::string, Status>> List(const Path& path, const Wait& wait) override;
  void MakeDirectory(const Path& path, const Wait& wait) override;
  void MakeDirectories(const Path& path, const Wait& wait) override;
  void RemoveFile(const Path& path, const Wait& wait) override;
  void RemoveDirectory(const Path& path, const Wait& wait) override;
  void RemoveTree(const Path& path, const Wait& wait) override;
  void Rename(const Path& from, const Path& to, const Wait& wait) override;
  std::unique_ptr<ReadableFile> OpenRead(const Path& path, const Wait& wait) override;
  std::unique_ptr<WritableFile> OpenWrite(const Path& path, Mode mode, const Wait& wait) override;
  const Target& target() const override { return target_; }

  // For the files.
  endpoint::Client& client() { return client_; }
  std::optional<endpoint::FileInfo> Info(const Path& path, const Wait& wait);
  std::optional<Found> Find(const Path& path, const Wait& wait);
  // Throws Error(kNotFound), or Error(kFailedPrecondition) if something above it is a file.
  Found Need(const Path& path, const Wait& wait);
  // The directory that a new entry would be in has to exist.
  void NeedParent(const Path& path, const Wait& wait);
  // False if there was nothing.
  bool Delete(const Path& path, bool recursive, const Wait& wait);
  // One rename as the server does it: never onto a file, into a directory that is there. Throws ServerError.
  void Move(const Path& from, const Path& to, const Wait& wait);
  // Moves a file, in place of whatever file is there.
  void Replace(const Path& from, const Path& to, const Wait& wait);

 private:
  [[noreturn]] void ExplainMissing(const Path& path, const Wait& wait);
  Error NotADirectory(const Path& path) const;
  std::vector<endpoint::FileInfo> ListRaw(const Path& path, const Wait& wait);
  // Removes a file whose writer has died; false if it lives, or if the file changed since `mtime` was read.
  bool RemoveOrphan(const Path& path, std::int64_t mtime, const Wait& wait);
  void CollectOrphans(const Path& path, const std::vector<endpoint::FileInfo>& unpublished, const Wait& wait);
  // Removes a directory with nothing in it but what dead writers have left; else returns why it is still
  // there.
  std::string RemoveEmpty(const Path& path, const Wait& wait);

  const Target target_;
  endpoint::Client client_;
};

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_ENDPOINT_BACKEND_H_
