// Runs before any other module: the contract and the collection of errors.
import { installContract, mode } from './contract';
import { collectErrors } from './errors';
import { listenForSound } from './sound';

collectErrors();
installContract();
if (mode === 'live') listenForSound();
