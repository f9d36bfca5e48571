// A file of the caches that is open for reading.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_FILE_READER_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_FILE_READER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "native/igfs/backend.h"
#include "native/igfs/block_reader.h"
#include "native/igfs/path.h"
#include "native/igfs/read_ahead.h"
#include "native/igfs/tree.h"

namespace ignite_strategy {
namespace igfs {

// A sequential reader gets read-ahead, one that goes on for long from a thread; reads of other threads
// meanwhile go their own way beside it.
class FileReader : public ReadableFile {
 public:
  // Throws Error(kNotFound) or, for a directory, Error(kFailedPrecondition).
  static std::unique_ptr<FileReader> Open(std::shared_ptr<Tree> tree, const Path& path, const Wait& wait);

  std::size_t Read(std::uint64_t offset, std::size_t size, char* out, const Wait& wait) override;
  std::uint64_t size() const override;

 private:
  FileReader(std::shared_ptr<Tree> tree, Place place, std::string what);

  std::shared_ptr<const Record> Version() const;
  std::shared_ptr<const Record> Newer(const Wait& wait);
  void ReadInOrder(const std::shared_ptr<const Record>& version, std::uint64_t offset, std::size_t size,
                   char* out, const Wait& wait);
  [[noreturn]] void ExplainLoss(const Error& error, const Record& version, const Wait& wait);

  const std::shared_ptr<Tree> tree_;
  const Key key_;
  const std::string what_;
  mutable std::mutex version_mutex_;
  std::shared_ptr<const Record> version_;

  std::mutex sequential_mutex_;  // of what follows
  BlockReader blocks_;
  std::shared_ptr<const Record> blocks_version_;
  std::uint64_t next_ = 0;   // where a sequential reader goes on
  std::uint64_t begun_ = 0;  // where it began
  std::unique_ptr<ReadAhead> ahead_;
};

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_FILE_READER_H_
