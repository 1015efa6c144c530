import { afterAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { loadConfig } from './load.ts';
import { ConfigProblems } from './problems.ts';
import type { Environment } from './read-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-secret-files-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Writes a file as `docker secret create` would, and returns its path. */
function secretFile(content: string): string {
  const path = join(folder, `${Bun.randomUUIDv7()}.txt`);
  writeFileSync(path, content);
  return path;
}

function load(environment: Environment, content: object = {}) {
  const config = join(folder, 'tollgate.yaml');
  writeFileSync(config, stringify(content));
  return loadConfig({ config }, environment);
}

function problems(environment: Environment, content: object = {}): string[] {
  try {
    load(environment, content);
  } catch (error) {
    if (error instanceof ConfigProblems) return error.message.split('\n');
    throw error;
  }
  return [];
}

describe('a variable with the suffix _FILE', () => {
  test('names the file that contains a secret variable', () => {
    const values = {
      DATABASE_URL: 'postgres://db.internal/tollgate',
      REDIS_URL: 'redis://:secret@redis.internal',
      OBJECTS_URL: 's3://bucket/prefix',
      AWS_ACCESS_KEY_ID: 'AKIA1',
      AWS_SECRET_ACCESS_KEY: 'aws-secret',
      AWS_SESSION_TOKEN: 'aws-session',
      OPENAI_API_KEY: 'sk-openai-0123456789',
      TOLLGATE_BOOTSTRAP_API_KEY: 'sk-tg-0123456789-0123456789-0123456789',
      TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: 'sk-mgmt-0123456789-0123456789-0123456789',
      TOLLGATE_ADMIN_TOKEN: 'sk-admin-0123456789-0123456789-0123456789',
      TOLLGATE_SECRET_KEY: 'f0c1b2a39485768796a5b4c3d2e1f001',
      TOLLGATE_PREVIOUS_SECRET_KEY: 'e0c1b2a39485768796a5b4c3d2e1f002',
    };
    const environment = Object.fromEntries(
      Object.entries(values).map(([name, value]) => [`${name}_FILE`, secretFile(`${value}\n`)]),
    );
    const config = load({
      ...environment,
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318',
      OTEL_EXPORTER_OTLP_HEADERS_FILE: secretFile('authorization=otel-secret\r\n'),
    });
    const { s3Credentials, bootstrap, tracing } = config;
    expect({
      DATABASE_URL: config.database.reveal(),
      REDIS_URL: config.redis?.reveal(),
      OBJECTS_URL: config.objects.reveal(),
      AWS_ACCESS_KEY_ID: s3Credentials.accessKeyId?.reveal(),
      AWS_SECRET_ACCESS_KEY: s3Credentials.secretAccessKey?.reveal(),
      AWS_SESSION_TOKEN: s3Credentials.sessionToken?.reveal(),
      OPENAI_API_KEY: config.providers.get('openai')?.apiKey?.reveal(),
      TOLLGATE_BOOTSTRAP_API_KEY: bootstrap.apiKey?.reveal(),
      TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: bootstrap.managementKey?.reveal(),
      TOLLGATE_ADMIN_TOKEN: bootstrap.adminToken?.reveal(),
      TOLLGATE_SECRET_KEY: config.secretKey?.reveal(),
      TOLLGATE_PREVIOUS_SECRET_KEY: config.previousSecretKey?.reveal(),
    }).toEqual(values);
    expect(tracing?.headers.authorization?.reveal()).toBe('otel-secret');
  });

  test('works for any variable that the configuration file names', () => {
    const providers = {
      mine: {
        dialect: 'openai',
        base_url: 'http://gpu-1/v1',
        api_key: ['$', '{GPU_KEY}'].join(''),
      },
    };
    const config = load({ GPU_KEY_FILE: secretFile('key-of-the-gpu\n') }, { providers });
    expect(config.providers.get('mine')?.apiKey?.reveal()).toBe('key-of-the-gpu');
  });

  test('is rejected if the file cannot be read or is empty', () => {
    expect(problems({ OPENAI_API_KEY_FILE: join(folder, 'missing') })).toEqual([
      "environment: OPENAI_API_KEY_FILE names a file that can't be read (ENOENT)",
    ]);
    expect(problems({ DATABASE_URL_FILE: secretFile('\n') })).toEqual([
      'environment: DATABASE_URL_FILE names a file that is empty',
    ]);
  });

  test('is rejected if the variable itself is set too', () => {
    const both = { OPENAI_API_KEY: 'sk-1', OPENAI_API_KEY_FILE: secretFile('sk-2') };
    expect(problems(both)).toEqual([
      'environment: OPENAI_API_KEY_FILE is set together with OPENAI_API_KEY; set only one of them',
    ]);
  });

  test('is ignored if it is empty', () => {
    expect(
      load({ OPENAI_API_KEY: 'sk-1', OPENAI_API_KEY_FILE: '' }).providers.get('openai'),
    ).toMatchObject({ shared: true });
  });
});
