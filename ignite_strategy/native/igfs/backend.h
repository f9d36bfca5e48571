// A file system as those see it who use it: TensorFlow's plugin, the Python binding, copies. Two kinds of
// Ignite keep one: caches (any Ignite >= 2.8) and IGFS itself behind its own endpoint (Ignite <= 2.8.1).
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_BACKEND_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "native/igfs/path.h"
#include "native/igfs/target.h"
#include "native/wire/wait.h"

namespace ignite_strategy {
namespace igfs {

struct Status {
  bool is_directory = false;
  std::uint64_t size = 0;
  std::int64_t mtime = 0;  // nanoseconds since 1970
};

enum class Mode {
  kReplace,    // "w"
  kAppend,     // "a": keeps what is there, creates the file if there is none
  kExclusive,  // "x": there must be none
};

class Tree;

// A file that is open for reading: the version that was there when it was opened. Thread-safe.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // Copies what there is of [offset, offset + size) and returns how much that is: less than `size` only at
  // the end of the file. A read beyond the end looks once whether the file has grown.
  virtual std::size_t Read(std::uint64_t offset, std::size_t size, char* out, const Wait& wait) = 0;
  virtual std::uint64_t size() const = 0;
};

// A file that is open for writing. Thread-safe. After an error of Append or Flush the file is finished: Close
// repeats the error and publishes nothing. Destruction drops what was not published.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual void Append(const char* data, std::size_t size, const Wait& wait) = 0;
  // Everything written so far is published when this returns.
  virtual void Flush(const Wait& wait) = 0;
  // Publishes the rest. A second call does nothing.
  virtual void Close(const Wait& wait) = 0;
  // Closes without publishing what was not published yet.
  virtual void Abandon() noexcept = 0;
  virtual std::uint64_t Tell() const = 0;
};

// For a file that a process from before fork() has open for writing.
Error OpenedByTheParent(const std::string& what);

// Thread-safe. Errors name the path: kNotFound, kAlreadyExists, kFailedPrecondition (a directory where a file
// is needed or the reverse, not empty), kInvalidArgument, kAborted (another writer was faster), kUnavailable
// (no node answers; never kNotFound), kDataLoss.
class Backend {
 public:
  // That of a target, one for the process.
  static std::shared_ptr<Backend> Mount(const Target& target);
  virtual ~Backend() = default;

  virtual Status GetStatus(const Path& path, const Wait& wait) = 0;
  // The names in a directory, sorted. Names that must not be are left out.
  virtual std::vector<std::pair<std::string, Status>> List(const Path& path, const Wait& wait) = 0;
  virtual void MakeDirectory(const Path& path, const Wait& wait) = 0;
  virtual void MakeDirectories(const Path& path, const Wait& wait) = 0;
  virtual void RemoveFile(const Path& path, const Wait& wait) = 0;
  virtual void RemoveDirectory(const Path& path, const Wait& wait) = 0;
  // A file, or a directory with everything below it, which disappears in one step.
  virtual void RemoveTree(const Path& path, const Wait& wait) = 0;
  // Replaces a file, or an empty directory by a directory.
  virtual void Rename(const Path& from, const Path& to, const Wait& wait) = 0;
  virtual std::unique_ptr<ReadableFile> OpenRead(const Path& path, const Wait& wait) = 0;
  // The directory must exist.
  virtual std::unique_ptr<WritableFile> OpenWrite(const Path& path, Mode mode, const Wait& wait) = 0;

  // Frees what is due of replaced content and of dead writers, as far as the server does not do it itself.
  virtual void Tend(const Wait&) {}
  // The tree on caches; null if something else keeps the files.
  virtual Tree* tree() { return nullptr; }

  virtual const Target& target() const = 0;
  std::string Describe(const Path& path) const { return "igfs://" + target().ToString() + FormatPath(path); }
};

// An error as those see it who know files, not caches: what the server could not do for us is kUnavailable,
// never kNotFound, because a caller that hears kNotFound believes that there is no such file.
Error Outward(const Error& error);

// Whether a call failed because there is no such file or directory, or another kind of one.
inline bool MeansNotThere(const Error& error) {
  return error.code() == Code::kNotFound || error.code() == Code::kFailedPrecondition;
}

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_BACKEND_H_
