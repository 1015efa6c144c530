import { expect, test } from 'bun:test';
import { fieldsOf } from '../core/json.ts';
import type { ConfigServiceDeps } from './config-service.ts';
import { exportConfig } from './config-transfer.ts';

test('exportConfig refers to a different variable for each secret', async () => {
  const times = { createdAt: 0, createdBy: '', updatedAt: 0, updatedBy: '' };
  const provider = (name: string) => ({
    ...{ kind: 'provider', name, version: 1, sealed: new Uint8Array(1), ...times },
    document: { api_key: '•••0123', headers: { 'x-a': '•••4567', x_a: '•••89ab' } },
  });
  const objects = ['a-b', 'a.b'].map(provider);
  const store = { read: async () => ({ version: 1, objects }) };
  const { providers } = await exportConfig({ store } as unknown as ConfigServiceDeps, false);
  expect(fieldsOf(providers)).toEqual({
    'a-b': {
      api_key: `\${A_B_API_KEY}`,
      headers: { 'x-a': `\${A_B_HEADERS_X_A}`, x_a: `\${A_B_HEADERS_X_A_2}` },
    },
    'a.b': {
      api_key: `\${A_B_API_KEY_2}`,
      headers: { 'x-a': `\${A_B_HEADERS_X_A_3}`, x_a: `\${A_B_HEADERS_X_A_4}` },
    },
  });
});
