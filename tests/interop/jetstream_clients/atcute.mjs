import { JetstreamSubscription } from "@atcute/jetstream";
import WebSocket from "ws";
import { Fold } from "./fold.mjs";

const [endpoint, file] = process.argv.slice(2);
const fold = new Fold(file);
const stream = new JetstreamSubscription({
	url: endpoint.replace("/subscribe", ""),
	cursor: fold.cursor,
	ws: { WebSocket },
	onError: () => {
		fold.invalid += 1;
		fold.changed = true;
	},
});
for await (const event of stream) fold.take(event);
