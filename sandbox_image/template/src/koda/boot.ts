// Runs before any other module: the contract and the collection of errors.
import { installContract } from './contract';
import { collectErrors } from './errors';

collectErrors();
installContract();
