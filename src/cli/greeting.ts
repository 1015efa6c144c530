import type { GeneratedSecrets } from '../auth/first-start.ts';
import type { Tollgate } from '../compose/build.ts';
import type { Config } from '../config/config.ts';
import type { Flags } from '../config/load.ts';
import { version } from '../config/version.ts';
import { hostInUrl } from '../core/network-address.ts';
import { ownAddress } from './gateway-address.ts';
import { counted } from './output.ts';
import { commandLine } from './program.ts';

/** What the greeting needs to know of a process that is ready; a worker sends it to its parent. */
export interface Ready {
  readonly port: number;
  readonly engine: string;
  readonly models: number;
  /** A model to chat with; null if no model can chat. */
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

/** The first text that a person sees. It shows secrets on the first start only. */
export function greeting(ready: Ready, config: Config, flags: Flags, workers = 1): string {
  const { firstSecrets, engine } = ready;
  const { publicUrl, host } = config.server;
  const ownUrl = `http://${hostInUrl(host)}:${ready.port}`;
  const url = publicUrl ?? ownAddress({ host, port: ready.port });
  const data = engine === 'sqlite' ? `data in ${config.dataDir}` : `data in ${engine}`;
  const models = counted(ready.models, 'model');
  const demo = config.demo ? ', the demo among them' : '';
  const lines = [
    `Tollgate ${version} is ready at ${ownUrl}`,
    `${models}${demo}; ${data}; settings from ${config.source}.`,
    ...(workers > 1 ? [aboutWorkers(workers, config)] : []),
    ...(publicUrl === null || url === ownUrl ? [] : [`Clients reach it at ${url}`]),
    `Dashboard: ${url}/dashboard`,
  ];
  if (!firstSecrets) {
    lines.push(`New keys: ${commandLine('keys create', '--name "my app"', flags)}`);
    return lines.join('\n');
  }
  return [
    ...lines,
    '',
    'These are shown once, keep them:',
    `  Routing key     ${firstSecrets.apiKey}`,
    `  Management key  ${firstSecrets.managementKey}`,
    `  Admin token     ${firstSecrets.adminToken}`,
    '',
    'Try it:',
    ...tryItLines(url, firstSecrets.apiKey, ready.model),
  ].join('\n');
}

/** A curl command for a first chat; if no model can chat, one that lists the models. */
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

/** Says whether workers count limits together or each for itself, so that no bill surprises. */
function aboutWorkers(workers: number, { redis }: Config): string {
  if (redis !== null) return `${workers} workers; they count limits together in Redis.`;
  return (
    `${workers} workers; each counts limits for itself, so up to ${workers} times as much ` +
    'passes. Set REDIS_URL to count them together.'
  );
}
