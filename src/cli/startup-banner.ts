import { rmSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { GeneratedSecrets } from '../auth/first-start.ts';
import type { Tollgate } from '../compose/build.ts';
import type { Config } from '../config/config.ts';
import type { Flags } from '../config/load.ts';
import { version } from '../config/version.ts';
import { hostInUrl } from '../core/network-address.ts';
import { localUrl } from './gateway-url.ts';
import { formatCount } from './output.ts';
import { commandLine, shellQuoted } from './own-command.ts';

/** What the startup banner shows about a process that is ready. A worker sends it to its parent. */
export interface Ready {
  readonly port: number;
  readonly engine: string;
  readonly models: number;
  /** The model of the example request, or null if no model can chat. */
  readonly model: string | null;
  readonly firstSecrets: GeneratedSecrets | null;
}

export function readyOf(tollgate: Tollgate, port: number): Ready {
  const { models, chatModel, engine, firstSecrets } = tollgate;
  return {
    port,
    engine,
    models: models.length,
    model: chatModel?.id ?? null,
    firstSecrets: firstSecrets ?? null,
  };
}

/**
 * Returns the text printed when the gateway is ready. The first start prints its secrets on a
 * terminal. Anywhere else, its output is a log that others can read, so they go into a file.
 */
export function announcement(ready: Ready, config: Config, flags: Flags, workers = 1): string {
  const { firstSecrets } = ready;
  if (!firstSecrets || process.stdout.isTTY) return startupBanner(ready, config, flags, workers);
  const file = saveSecrets(firstSecrets, config.dataDir);
  return startupBanner(ready, config, flags, workers, file);
}

/** Writes a file that only this user can read. Returns its path. */
function saveSecrets(secrets: GeneratedSecrets, dataDir: string): string {
  const file = resolve(dataDir, 'first-start-secrets.txt');
  // Don't write to an existing file, because others may be allowed to read it.
  rmSync(file, { force: true });
  writeFileSync(file, `${secretLines(secrets).join('\n')}\n`, { mode: 0o600, flag: 'wx' });
  return file;
}

/** `secretsFile` has the secrets of the first start, unless the text should show them. */
function startupBanner(
  ready: Ready,
  config: Config,
  flags: Flags,
  workers = 1,
  secretsFile?: string,
): string {
  const { firstSecrets, engine } = ready;
  const { publicUrl, host, admin } = config.server;
  const ownUrl = `http://${hostInUrl(host)}:${ready.port}`;
  const url = publicUrl ?? localUrl({ host, port: ready.port });
  const data = engine === 'sqlite' ? `data in ${config.dataDir}` : `data in ${engine}`;
  const models = formatCount(ready.models, 'model');
  const demo = config.demo ? ', including the demo' : '';
  const lines = [
    `Tollgate ${version} is ready at ${ownUrl}`,
    `${models}${demo}; ${data}; settings from ${config.source}.`,
    ...(workers > 1 ? [aboutWorkers(workers, config)] : []),
    ...(publicUrl === null || url === ownUrl ? [] : [`Public URL: ${url}`]),
    `Dashboard: ${url}/dashboard`,
    ...(admin
      ? [`Admin API, metrics, and the operator's dashboard: ${localUrl(admin)}/dashboard`]
      : []),
  ];
  if (!firstSecrets) {
    lines.push(`Create a key: ${commandLine('keys create', '--name "my app"', flags)}`);
    return lines.join('\n');
  }
  const [secrets, key] =
    secretsFile === undefined
      ? [
          ['Save these secrets now. They are shown only once:', ...secretLines(firstSecrets)],
          firstSecrets.apiKey,
        ]
      : [
          ['Save the secrets in this file, then delete it:', `  ${secretsFile}`],
          `$(grep -o 'sk-tg-.*' ${shellQuoted(secretsFile)})`,
        ];
  return [...lines, '', ...secrets, '', 'Try it:', ...tryItLines(url, key, ready.model)].join('\n');
}

function secretLines({ apiKey, managementKey, adminToken }: GeneratedSecrets): string[] {
  return [
    `  Routing key     ${apiKey}`,
    `  Management key  ${managementKey}`,
    `  Admin token     ${adminToken}`,
  ];
}

/** Returns a curl command for a chat request. If no model can chat, the command lists models. */
function tryItLines(url: string, key: string, model: string | null): string[] {
  const authorization = `    -H "Authorization: Bearer ${key}"`;
  if (model === null) return [`  curl ${url}/v1/models \\`, authorization];
  return [
    `  curl ${url}/v1/chat/completions \\`,
    `${authorization} \\`,
    '    -H "Content-Type: application/json" \\',
    `    -d '{"model":"${model}","messages":[{"role":"user","content":"Hello!"}]}'`,
  ];
}

/** Warns if each worker counts limits on its own, because that multiplies every limit. */
function aboutWorkers(workers: number, { redis }: Config): string {
  if (redis !== null) return `${workers} workers share their limits through Redis.`;
  return (
    `Each of the ${workers} workers counts limits separately, so together they allow up to ` +
    `${workers} times each limit. Set REDIS_URL to share the limits.`
  );
}
