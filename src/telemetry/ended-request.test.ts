import { expect, test } from 'bun:test';
import { endedRequest } from '../../tests/support/ended-request.ts';
import { creditsOf } from './ended-request.ts';

test('the credits of a request are its charge and every fee', () => {
  const charges = {
    modelCharge: 4000,
    byokPlatformFee: 300,
    managedToolFee: 20,
    agentRuntimeFee: 1,
  };
  expect(creditsOf(endedRequest({ charges }))).toBe(4321);
});
