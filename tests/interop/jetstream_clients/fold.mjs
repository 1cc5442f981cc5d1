// What a client makes of the events, kept in a file together with its cursor: a kill loses neither.

import { readFileSync, renameSync, writeFileSync } from "node:fs";

const FIRST_TIME = 1e15;
const SAVE_EVERY_MS = 20;

export class Fold {
	constructor(file) {
		this.file = file;
		this.invalid = 0;
		try {
			const saved = JSON.parse(readFileSync(file, "utf-8"));
			this.cursor = saved.cursor;
			this.state = saved.state;
		} catch {
			this.cursor = 1;
			this.state = {};
		}
		setInterval(() => this.save(), SAVE_EVERY_MS);
	}

	take(event) {
		if (event.time_us < FIRST_TIME && this.cursor >= FIRST_TIME) {
			this.state = {};
			this.cursor = 1;
		}
		this.cursor = Math.max(this.cursor, event.time_us);
		if (event.kind === "commit") {
			const { operation, collection, rkey, cid } = event.commit;
			const records = (this.state[event.did] ??= {});
			if (operation === "delete") delete records[`${collection}/${rkey}`];
			else records[`${collection}/${rkey}`] = cid;
		} else if (event.kind === "account" && !event.account.active) {
			delete this.state[event.did];
		}
		this.changed = true;
	}

	save() {
		if (!this.changed) return;
		this.changed = false;
		const { cursor, state, invalid } = this;
		writeFileSync(`${this.file}.new`, JSON.stringify({ cursor, state, invalid }));
		renameSync(`${this.file}.new`, this.file);
	}
}
