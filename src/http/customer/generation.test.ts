import { expect, test } from 'bun:test';
import { callerOf } from '../../../tests/support/caller.ts';
import { newRequestId } from '../../core/ids.ts';
import { Exchange, type KeyedRoute } from '../routes.ts';
import { generationRoutes } from './generation.ts';

test('the only process looks once for an unknown ID, even if it is from this second', async () => {
  let lookups = 0;
  const find = async () => {
    lookups += 1;
    return undefined;
  };
  const deps = { find, running: { find: async () => undefined, isOnlyHere: () => true } };
  const [route] = generationRoutes({ ...deps, creditsPerUsd: 1 }) as KeyedRoute[];
  const url = `http://localhost/v1/generation?id=${newRequestId()}`;
  const answer = Promise.resolve(route?.handle(new Exchange(new Request(url)), callerOf('acme')));
  expect(await answer.catch((error) => error)).toMatchObject({ status: 404, param: 'id' });
  expect(lookups).toBe(1);
});
