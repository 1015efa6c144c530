import { afterEach, expect, mock, spyOn, test } from 'bun:test';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { connectionsLeftMax } from '../../core/bounds.ts';
import { Connections } from './connections.ts';
import { RoundTrip } from './round-trip.ts';

afterEach(() => mock.restore());

test('a server that drops what is sent to it takes only so many open files', async () => {
  const opening: PromiseWithResolvers<never>[] = [];
  spyOn(Bun, 'connect').mockImplementation(() => {
    const one = Promise.withResolvers<never>();
    opening.push(one);
    return one.promise;
  });
  const connections = new Connections({ hostname: '127.0.0.1', port: 1, isSecure: false });
  const giveUp = async () => {
    const trip = new RoundTrip({ start: 'POST / HTTP/1.1\r\n\r\n', rest: undefined });
    connections.start(trip);
    const failure = failureOf(trip.answered);
    trip.cancel();
    return failure;
  };
  for (let count = 0; count < connectionsLeftMax; count += 1) {
    expect(await giveUp()).toMatchObject({ code: 'ECONNABORTED' });
  }
  expect(await giveUp()).toMatchObject({ code: 'ETIMEDOUT' });
  expect(opening).toHaveLength(connectionsLeftMax);

  // The system has given up one of them: there is a place for the next.
  opening[0]?.reject(new Error('ETIMEDOUT'));
  await Bun.sleep(0);
  expect(await giveUp()).toMatchObject({ code: 'ECONNABORTED' });
  expect(await giveUp()).toMatchObject({ code: 'ETIMEDOUT' });
  expect(opening).toHaveLength(connectionsLeftMax + 1);
});
