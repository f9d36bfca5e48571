#include "native/igfs/file_writer.h"

#include <algorithm>

#include "native/igfs/block_reader.h"

namespace ignite_strategy {
namespace igfs {
namespace {

constexpr std::int16_t kPut = 1001;
constexpr std::uint8_t kByteArray = 12;
constexpr std::size_t kInFlight = 4;
constexpr int kMostBreaks = 3;
constexpr std::uint64_t kFirstDeclaration = 16;
// A file that was extended by so many writers is written anew by the next one.
constexpr std::size_t kMostExtents = 64;
constexpr Millis kDropLimit{2000};
// What a file takes beside its content, and a block beside its bytes: entries, keys, half-filled pages.
constexpr std::uint64_t kBytesOfRecords = 16 << 10;

}  // namespace

FileWriter::FileWriter(std::shared_ptr<Tree> tree, Place place, Mode mode, std::string what)
    : tree_(std::move(tree)),
      key_(std::move(place.key)),
      what_(std::move(what)),
      expect_(mode == Mode::kReplace ? Expect::kAnything : Expect::kSame) {
  record_.kind = Kind::kFile;
  record_.id = NewId();
  record_.block_size = tree_->store().options().block_size;
  must_publish_ = mode != Mode::kAppend || !place.record;
  if (mode == Mode::kAppend) seen_ = std::move(place.record);
}

std::unique_ptr<FileWriter> FileWriter::Open(std::shared_ptr<Tree> tree, const Path& path, Mode mode,
                                             const Wait& wait) {
  std::string what = tree->Describe(path);
  if (path.empty()) throw Error(Code::kFailedPrecondition, what + " is the root directory, not a file");
  tree->store().Create(wait);
  tree->NeedRoom(kBytesOfRecords, what, wait);
  Place place = tree->Resolve(path, wait);
  if (place.record && !place.record->IsFile()) {
    throw Error(Code::kFailedPrecondition, what + " is a directory, not a file");
  }
  if (place.record && mode == Mode::kExclusive) throw Error(Code::kAlreadyExists, what + " exists already");
  std::unique_ptr<FileWriter> writer(
      new FileWriter(std::move(tree), std::move(place), mode, std::move(what)));
  if (writer->seen_) writer->KeepOld(*writer->seen_, wait);
  return writer;
}

FileWriter::~FileWriter() {
  if (!closed_) Drop();
}

// Keeps the whole blocks of what is there; the bytes of the last, partial block become the start of the own
// extent.
void FileWriter::KeepOld(const Record& old, const Wait& wait) {
  record_.id = old.id;
  record_.block_size = old.block_size;
  const std::uint64_t size = old.size();
  const bool rewrite = old.extents.size() >= kMostExtents;
  std::uint64_t kept = rewrite ? 0 : size - size % old.block_size;
  BlockReader blocks(tree_->store());
  std::vector<char> piece(old.block_size);
  for (std::uint64_t at = kept; at < size;) {
    const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), size - at));
    blocks.Read(old, at, some, piece.data(), rewrite ? kInFlight : 0, what_, wait);
    Fill(piece.data(), some, wait);
    at += some;
  }
  for (Extent extent : old.extents) {
    extent.length = std::min(extent.length, kept);
    kept -= extent.length;
    if (extent.length > 0) record_.extents.push_back(extent);
  }
  clean_ = length_;
}

void FileWriter::NeedWhole() const {
  if (generation_ != ForkGeneration()) throw OpenedByTheParent(what_);
  if (failure_) throw *failure_;
}

void FileWriter::NeedUsable() const {
  NeedWhole();
  if (closed_) throw Error(Code::kFailedPrecondition, what_ + " is closed");
}

template <typename Body>
void FileWriter::Guard(Body body) {
  NeedUsable();
  try {
    body();
  } catch (const Error& error) {
    failure_ = error;
    throw;
  } catch (...) {  // Ctrl-C, as Python's exception
    failure_ = Error(Code::kCancelled, what_ + ": interrupted while it was being written");
    throw;
  }
}

void FileWriter::Append(const char* data, std::size_t size, const Wait& wait) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Guard([&] { Fill(data, size, wait); });
}

void FileWriter::Fill(const char* data, std::size_t size, const Wait& wait) {
  const std::size_t block_size = record_.block_size;
  while (size > 0) {
    const std::size_t some = std::min(block_size - buffer_.size(), size);
    if (buffer_.capacity() < buffer_.size() + some) {  // grows by doubling, but never beyond a block
      buffer_.reserve(std::min(block_size, std::max(2 * buffer_.size(), buffer_.size() + some)));
    }
    buffer_.insert(buffer_.end(), data, data + some);
    data += some;
    size -= some;
    length_ += some;
    if (buffer_.size() == block_size) {
      SubmitBuffer(wait);
      buffer_.clear();
    }
  }
}

// Sends the buffer as the block that ends at length_. The buffer is empty afterwards, or has the memory of an
// earlier block.
void FileWriter::SubmitBuffer(const Wait& wait) {
  const std::uint64_t index = (length_ - 1) / record_.block_size;
  tree_->NeedRoom(buffer_.size() + kBytesOfRecords, what_, wait);
  Declare(index, wait);
  Drain(kInFlight - 1, wait);
  flying_.push_back(Block{index, std::move(buffer_)});
  buffer_ = std::vector<char>();
  if (!spare_.empty()) {
    buffer_ = std::move(spare_.back());
    spare_.pop_back();
  }
  SendUnsent(wait);
}

void FileWriter::SendUnsent(const Wait& wait) {
  for (;;) {
    try {
      if (!lease_) lease_ = tree_->store().Connect(wait, breaks_ > 0);
      for (Block& block : flying_) {
        if (block.request != 0) continue;
        Writer request;
        tree_->store().PutBlocksPrefix(request);
        PutBlockKey(request, content_, block.index);
        request.Put(kByteArray).Put(static_cast<std::int32_t>(block.data.size()));
        block.request = lease_->Send(kPut, request, block.data.data(), block.data.size(), wait);
      }
      return;
    } catch (const Error& error) {
      Broken(error);
    }
  }
}

// Which blocks had arrived when the connection broke is unknown; putting one twice does no harm.
void FileWriter::Broken(const Error& error) {
  if (!Store::IsBroken(error) || ++breaks_ > kMostBreaks) throw error;
  lease_.Discard();
  for (Block& block : flying_) block.request = 0;
}

void FileWriter::Drain(std::size_t most, const Wait& wait) {
  while (flying_.size() > most) {
    Response response;
    try {
      response = lease_->Receive(wait);
    } catch (const Error& error) {
      Broken(error);
      SendUnsent(wait);
      continue;
    }
    if (response.status != 0) throw lease_->ServerError(response, "writing " + what_);
    const auto done = std::find_if(flying_.begin(), flying_.end(),
                                   [&](const Block& block) { return block.request == response.request_id; });
    if (done == flying_.end()) throw Error(Code::kDataLoss, "an answer to a request that was not made");
    done->data.clear();
    if (spare_.empty()) spare_.push_back(std::move(done->data));
    flying_.erase(done);
    breaks_ = 0;
  }
}

// Before a block is sent, the cluster knows where to look for it should this writer die.
void FileWriter::Declare(std::uint64_t index, const Wait& wait) {
  const bool fresh = writing_ && Clock::now() - declared_at_ < tree_->store().options().writer_lease / 4;
  if (index < declared_ && (!writing_ || fresh)) return;
  const Key key = SpecialKey(key_.parent, 'w', content_);
  Record record;
  record.kind = Kind::kWriting;
  record.id = ++declarations_;
  const std::uint64_t end =
      index < declared_ ? declared_ : std::max(published_ + kFirstDeclaration, 4 * index);
  record.blocks = {{content_, published_, end}};
  tree_->store().Put(key, record, wait);
  writing_ = {key, record};
  declared_ = end;
  declared_at_ = Clock::now();
}

void FileWriter::Publish(const Wait& wait) {
  if (length_ == clean_ && !must_publish_) return;
  if (!buffer_.empty()) {
    std::vector<char> tail = buffer_;  // it goes on growing after this
    SubmitBuffer(wait);
    buffer_ = std::move(tail);
  }
  Drain(0, wait);
  lease_ = Lease();
  Record record = record_;
  record.mtime = NowNanos();
  if (length_ > 0) record.extents.push_back({content_, length_});
  tree_->Publish(key_, record, expect_, seen_, writing_, what_, wait);
  writing_.reset();
  published_ = declared_ = (length_ + record_.block_size - 1) / record_.block_size;
  clean_ = length_;
  must_publish_ = false;
  expect_ = Expect::kSame;
  seen_ = std::move(record);
}

void FileWriter::Flush(const Wait& wait) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Guard([&] { Publish(wait); });
}

void FileWriter::Close(const Wait& wait) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return;
  closed_ = true;
  try {
    NeedWhole();
    Publish(wait);
  } catch (...) {
    Drop();
    throw;
  }
  Drop();  // nothing but memory is left, unless an old file was copied and nothing was added to it
}

void FileWriter::Abandon() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!closed_) Drop();
  closed_ = true;
}

std::uint64_t FileWriter::Tell() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::uint64_t kept = 0;
  for (const Extent& extent : record_.extents) kept += extent.length;
  return kept + length_;
}

// Waits for the answers to the blocks on their way: one that arrived after their removal would stay for ever.
bool FileWriter::Settle(const Wait& wait) noexcept {
  const auto unsent = [](const Block& block) { return block.request == 0; };
  flying_.erase(std::remove_if(flying_.begin(), flying_.end(), unsent), flying_.end());
  try {
    for (; !flying_.empty(); flying_.pop_back()) lease_->Receive(wait);
  } catch (const std::exception&) {
    return false;
  }
  return breaks_ == 0;
}

void FileWriter::Drop() noexcept {
  if (generation_ != ForkGeneration()) return;  // what is on the cluster is the parent's
  const Wait wait = Wait::For(kDropLimit);
  // What may still arrive is left to the collector, which finds it by the declaration when its lease has
  // ended.
  if (Settle(wait) && writing_) tree_->Abandon(writing_->first, writing_->second, wait);
  writing_.reset();
  lease_ = Lease();
  flying_.clear();
  buffer_ = {};
  spare_.clear();
}

}  // namespace igfs
}  // namespace ignite_strategy
