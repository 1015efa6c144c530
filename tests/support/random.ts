// Random tests print their seed when they fail. To repeat a run, set TOLLGATE_TEST_SEED to it.
import fc from 'fast-check';

const given = process.env.TOLLGATE_TEST_SEED;
const [random = 0] = crypto.getRandomValues(new Int32Array(1));

/** The seed of every random test of this process. */
export const seed = given === undefined ? random : Number(given);
if (!Number.isInteger(seed)) throw new Error(`TOLLGATE_TEST_SEED isn't an integer: "${given}".`);

fc.configureGlobal({ seed });

export { fc };
