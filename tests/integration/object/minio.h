#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/peer.h"
#include "volume/object/open_store.h"

namespace paddleop::volume::object::testing {

// The MinIO server that all tests of this program share; started with the first use.
paddleop::testing::Peer& Minio();

// The address of a bucket there, and the configuration of a store in it.
std::string BucketAddress(std::string_view bucket);
StorageConfig MinioConfig(std::string_view bucket);
// A name that no other test uses.
std::string NewBucketName();
// A new, empty bucket.
std::unique_ptr<ObjectStore> NewBucket(StoreOptions options = {}, std::string* name = nullptr);

// Does something with the bucket through boto3, an independent client: see boto3_client.py. Returns
// what it printed.
std::string Boto3(std::string_view action, std::string_view bucket,
                  const std::vector<std::string>& arguments = {});

}  // namespace paddleop::volume::object::testing
