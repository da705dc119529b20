// SPDX-License-Identifier: Apache-2.0
// What both directions share: the services, as the .proto files of this repository say.
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const fs = require('fs');
const path = require('path');

const protos = process.env.HOLDFAST_PROTOS;
const options = {
  includeDirs: [protos, __dirname], keepCase: true, longs: String, enums: String,
  defaults: true, oneofs: true, objects: true, arrays: true,
};
const load = (files, more) => grpc.loadPackageDefinition(loader.loadSync(files, { ...options, ...more }));
exports.grpc = grpc;
exports.v1 = load(fs.readdirSync(path.join(protos, 'holdfast/v1')).map((file) => `holdfast/v1/${file}`),
  { bytes: String }).holdfast.v1;
exports.testing = load('interop.proto').grpc.testing;
exports.read = (dir, file) => fs.readFileSync(path.join(dir, file));

// Odd characters that have to survive percent-encoding.
exports.MISSING = 'volume "missing" is 100% away\nna\u00efve';
