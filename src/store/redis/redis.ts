import { RedisClient } from 'bun';
import { redisCommandMs, redisRetryMs, redisRetryMsMax } from '../../core/bounds.ts';
import { failureCode, failureMessage } from '../../core/failure-code.ts';
import { Deadlines } from './deadlines.ts';

/** Failures in a row after which Redis counts as away: one slow command is not an outage. */
const failuresToLeave = 3;

/** The server refuses everybody: once is enough to know. */
const refusesAll = /\b(?:OOM|READONLY|MISCONF|NOAUTH|LOADING|MASTERDOWN)\b/;

/** A server that fails again sooner than this after it came back is tried less often. */
const steadyMs = 5_000;

interface RedisWatcher {
  /** Once per outage, whatever the load: requests go on without Redis. */
  onAway(reason: string): void;
  onBack(): void;
}

/**
 * Redis or Valkey, without which requests go on: every answer may be `undefined`, which means that
 * nobody answered in time and the caller decides by itself. Nothing here rejects, and nothing waits
 * for a server that is known to be away; it is tried in the background until it is back.
 */
export class Redis {
  readonly #url: string;
  readonly #watcher: RedisWatcher;
  /** Stands before every name: other deployments may use the same server. */
  readonly #prefix: string;
  readonly #scripts: readonly Script[];
  readonly #deadlines: Deadlines;
  /** Set while Redis is up. */
  #client: RedisClient | undefined;
  #failures = 0;
  #backAt = Number.NEGATIVE_INFINITY;
  #retryMs = redisRetryMs;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  private constructor(
    url: string,
    watcher: RedisWatcher,
    scripts: readonly Script[],
    deployment: string,
    patienceMs: number,
  ) {
    this.#deadlines = new Deadlines(patienceMs);
    this.#prefix = `tollgate:${deployment}:`;
    this.#url = url;
    this.#watcher = watcher;
    this.#scripts = scripts;
  }

  /** Resolves after the first try, successful or not: a start never depends on it. */
  static async open(
    url: string,
    watcher: RedisWatcher,
    scripts: readonly Script[],
    deployment: string,
    patienceMs = redisCommandMs,
  ): Promise<Redis> {
    const redis = new Redis(url, watcher, scripts, deployment, patienceMs);
    const problem = await redis.#connect();
    if (problem !== undefined) redis.#leave(problem);
    return redis;
  }

  get isUp(): boolean {
    return this.#client !== undefined;
  }

  /** Runs a script by its hash; a server that does not know it yet gets the text. */
  run(script: Script, keys: readonly string[], args: readonly (string | number)[]) {
    const words = [script.hash, String(keys.length)];
    for (const key of keys) words.push(this.#prefix + key);
    for (const arg of args) words.push(String(arg));
    return this.#ask<unknown>((client) => evaluate(client, script, words));
  }

  /** `null`: there is no such key. */
  get(key: string): Promise<Uint8Array | null | undefined> {
    return this.#ask((client) => client.getBuffer(this.#prefix + key));
  }

  set(key: string, bytes: Uint8Array, ttlMs: number): Promise<'OK' | undefined> {
    const name = this.#prefix + key;
    return this.#ask((client) => client.set(name, bytes, 'PX', Math.max(1, Math.round(ttlMs))));
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#client?.close();
    this.#client = undefined;
  }

  #ask<T>(command: (client: RedisClient) => Promise<T>): Promise<T | undefined> {
    const client = this.#client;
    if (!client) return nobody;
    return this.#deadlines.within(command(client)).then(
      (answer) => {
        if (client === this.#client) this.#failures = 0;
        return answer;
      },
      (thrown) => {
        // Commands in flight when the connection broke must not count against the next one.
        if (client === this.#client) this.#count(messageOf(thrown));
        return undefined;
      },
    );
  }

  /** A full server still reads, which resets the count: so a single refusal is enough. */
  #count(failure: string): void {
    this.#failures += 1;
    if (this.#failures >= failuresToLeave || refusesAll.test(failure)) this.#leave(failure);
  }

  #leave(reason: string): void {
    const client = this.#client;
    this.#client = undefined;
    client?.close();
    if (this.#closed) return;
    const wasSteady = performance.now() - this.#backAt >= steadyMs;
    this.#retryMs = wasSteady ? redisRetryMs : Math.min(this.#retryMs * 2, redisRetryMsMax);
    this.#watcher.onAway(reason);
    this.#retryLater();
  }

  #retryLater(): void {
    this.#timer = setTimeout(async () => {
      const problem = await this.#connect();
      if (this.#closed) this.close();
      else if (problem === undefined) this.#watcher.onBack();
      else this.#retryLater();
    }, this.#retryMs);
    this.#timer.unref();
  }

  /** A server must answer as fast as a command may take before it is trusted again. */
  async #connect(): Promise<string | undefined> {
    const client = new RedisClient(this.#url, {
      connectionTimeout: Math.max(redisRetryMs, this.#deadlines.ms),
      // Queued commands would hold their requests up; and this class decides when to connect again.
      autoReconnect: false,
      enableOfflineQueue: false,
    });
    try {
      await client.connect();
      await this.#deadlines.within(client.send('PING', []));
      // Otherwise a script's first run takes two round trips, and later commands overtake it.
      const loads = this.#scripts.map(({ text }) => client.send('SCRIPT', ['LOAD', text]));
      await this.#deadlines.within(Promise.allSettled(loads));
      const trials = quarters.map((tag) => tryAll(client, `${this.#prefix}trial:{${tag}}`));
      await this.#deadlines.within(Promise.all(trials));
    } catch (thrown) {
      client.close();
      return messageOf(thrown);
    }
    client.onclose = () => {
      if (this.#client === client) this.#leave('The connection was closed.');
    };
    this.#client = client;
    this.#failures = 0;
    this.#backAt = performance.now();
    return undefined;
  }
}

/** A Lua script: everything in it happens at once, on one round trip. */
export class Script {
  readonly text: string;
  readonly hash: string;

  constructor(text: string) {
    this.text = text;
    this.hash = new Bun.CryptoHasher('sha1').update(text).digest('hex');
  }
}

function evaluate(client: RedisClient, script: Script, words: readonly string[]): Promise<unknown> {
  return client.send('EVALSHA', [...words]).catch((thrown: unknown) => {
    if (!messageOf(thrown).startsWith('NOSCRIPT')) throw thrown;
    return client.send('EVAL', [script.text, ...words.slice(1)]);
  });
}

/**
 * Every command that counting and keeping answers need, tried before a server is trusted. A user
 * who lacks one would have limits that nobody counts, without a word in the log.
 */
const trial = new Script(`
redis.call('TIME')
redis.call('HSET', KEYS[1], 'trial', 1)
redis.call('PEXPIRE', KEYS[1], 1000)
redis.call('HMGET', KEYS[1], 'trial')
redis.call('DEL', KEYS[1])
redis.call('ZADD', KEYS[1], 1, 'trial')
redis.call('ZCARD', KEYS[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', 0)
redis.call('ZREM', KEYS[1], 'trial')
redis.call('SET', KEYS[1], 1, 'PX', 1000)
redis.call('GET', KEYS[1])
return redis.call('DEL', KEYS[1])
`);

/**
 * A trial that breaks off leaves its key as it is, of a kind that would break off the next one. Not
 * removed by the script: a full server refuses no script that has removed something.
 */
async function tryAll(client: RedisClient, key: string): Promise<void> {
  await client.send('DEL', [key]);
  await evaluate(client, trial, [trial.hash, '1', key]);
}

/** Names from all quarters of a cluster's keys: none of several nodes has all of them. */
const quarters = ['3', '2', '1', '0'];

const nobody = Promise.resolve(undefined);

/** The client says the same of a wrong password, of TLS that fails and of a port that is closed. */
const closed =
  'The connection was closed: the address, its password or its TLS (rediss://) may be wrong.';

/** The server itself would name only the place of one key. */
const oneOfMany =
  'MOVED: this is one node of a cluster, and other nodes have a part of the keys; Tollgate needs ' +
  'a server that has all of them.';

function messageOf(thrown: unknown): string {
  if (failureCode(thrown) === 'ERR_REDIS_CONNECTION_CLOSED') return closed;
  const message = failureMessage(thrown);
  if (message.startsWith('MOVED ')) return oneOfMany;
  // It repeats the words that it did not understand, and a script has many.
  return message.replace(
    / script: \w+, on @user_script:\d+\.$|, with args beginning with: .*$/s,
    '',
  );
}
