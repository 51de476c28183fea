// What tfjs itself computes, for `everyday_recognisers.py check`:
//   npm install @tensorflow/tfjs; NODE_PATH=node_modules node everyday_recognisers.js COCO_SSD_FOLDER PICTURE.json...
// PICTURE.json holds {"width", "height", "pixels"}; beside it PICTURE.reference.json is written.
const fs = require("fs");
const path = require("path");
const tf = require("@tensorflow/tfjs");

const [folder, ...pictures] = process.argv.slice(2);
const model = JSON.parse(fs.readFileSync(path.join(folder, "model.json")));
const [group] = model.weightsManifest;
const bytes = Buffer.concat(group.paths.map((each) => fs.readFileSync(path.join(folder, each))));
const weightData = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
const source = { load: async () => ({ modelTopology: model.modelTopology, weightSpecs: group.weights, weightData }) };

(async () => {
  const graph = await tf.loadGraphModel(source);
  for (const each of pictures) {
    const { width, height, pixels } = JSON.parse(fs.readFileSync(each));
    const picture = tf.tensor4d(Int32Array.from(pixels), [1, height, width, 3], "int32");
    const names = ["Preprocessor/sub", "Postprocessor/Slice", "Postprocessor/ExpandDims_1"];
    const [input, scores, boxes] = (await graph.executeAsync(picture, names)).map((value) => Array.from(value.dataSync()));
    fs.writeFileSync(each.replace(/\.json$/, ".reference.json"), JSON.stringify({ input, scores, boxes }));
  }
})();
