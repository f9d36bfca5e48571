// A file of the caches that is open for writing. Nobody sees anything of it until Flush or Close publishes it
// in one step.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_FILE_WRITER_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_FILE_WRITER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "native/igfs/backend.h"
#include "native/igfs/path.h"
#include "native/igfs/tree.h"
#include "native/wire/socket.h"

namespace ignite_strategy {
namespace igfs {

class FileWriter : public WritableFile {
 public:
  // The directory must exist.
  static std::unique_ptr<FileWriter> Open(std::shared_ptr<Tree> tree, const Path& path, Mode mode,
                                          const Wait& wait);
  ~FileWriter() override;
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void Append(const char* data, std::size_t size, const Wait& wait) override;
  void Flush(const Wait& wait) override;
  void Close(const Wait& wait) override;
  void Abandon() noexcept override;
  std::uint64_t Tell() const override;

 private:
  // A block on its way: kept until the server has it, so that it can be sent again.
  struct Block {
    std::uint64_t index = 0;
    std::vector<char> data;
    std::int64_t request = 0;  // 0: not sent, on the connection at hand
  };

  FileWriter(std::shared_ptr<Tree> tree, Place place, Mode mode, std::string what);

  void KeepOld(const Record& old, const Wait& wait);
  void Fill(const char* data, std::size_t size, const Wait& wait);
  void SubmitBuffer(const Wait& wait);
  void SendUnsent(const Wait& wait);
  void Drain(std::size_t most, const Wait& wait);
  void Broken(const Error& error);
  void Declare(std::uint64_t index, const Wait& wait);
  void Publish(const Wait& wait);
  void NeedWhole() const;
  void NeedUsable() const;
  template <typename Body>
  void Guard(Body body);
  bool Settle(const Wait& wait) noexcept;
  void Drop() noexcept;

  const std::shared_ptr<Tree> tree_;
  const Key key_;
  const std::string what_;
  const Id content_ = NewId();
  const unsigned long generation_ = ForkGeneration();  // of the process that has opened it
  mutable std::mutex mutex_;

  Record record_;  // what the next publishing makes public, without this writer's own extent
  Expect expect_;
  std::optional<Record> seen_;  // what has to be in place for it
  std::uint64_t length_ = 0;    // of the own extent: blocks submitted, and the buffer
  std::uint64_t clean_ =
      0;  // the own extent's length when all of it was published, or copied from the old file
  std::uint64_t published_ = 0;  // blocks of the own extent that are public, also the last, partial one
  bool must_publish_ = false;    // even if nothing is written: the file is new, or empties an old one

  std::vector<char> buffer_;  // the block that is being filled
  std::vector<std::vector<char>> spare_;
  Lease lease_;
  std::vector<Block> flying_;
  int breaks_ = 0;

  std::optional<std::pair<Key, Record>> writing_;  // the bookkeeping record in the cluster
  std::uint64_t declared_ = 0;  // blocks before this one can be found should this writer die
  std::int64_t declarations_ = 0;
  Clock::time_point declared_at_;

  bool closed_ = false;
  std::optional<Error> failure_;
};

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_FILE_WRITER_H_
