import { Jetstream } from "@skyware/jetstream";
import WebSocket from "ws";
import { Fold } from "./fold.mjs";

const [endpoint, file] = process.argv.slice(2);
const fold = new Fold(file);
const stream = new Jetstream({ ws: WebSocket, endpoint, cursor: fold.cursor });
for (const kind of ["commit", "account", "identity"]) stream.on(kind, (event) => fold.take(event));
stream.on("error", () => {});
stream.start();
