import { expect, test } from 'bun:test';
import { totalCharge } from './fee-kinds.ts';

test('totalCharge adds the fees of every kind', () => {
  const charges = {
    modelCharge: 4000,
    byokPlatformFee: 300,
    managedToolFee: 20,
    agentRuntimeFee: 1,
  };
  expect(totalCharge(charges)).toBe(4321);
});
